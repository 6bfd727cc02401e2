//! A UDP relay that loses packets, for one client address after another.
use std::{collections::BTreeMap, io, net::SocketAddr, sync::Arc};

use tokio::{
    net::UdpSocket,
    task::{JoinHandle, JoinSet},
};

const PACKET: usize = 2048;

/// Relays until it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Relay {
    /// Loses `loss_percent` of the packets in each direction, by a fixed sequence.
    pub async fn start(server: SocketAddr, loss_percent: u64) -> io::Result<Self> {
        let front = Arc::new(UdpSocket::bind((server.ip(), 0)).await?);
        let address = front.local_addr()?;
        let task = tokio::spawn(forward(front, server, loss_percent));
        Ok(Self { address, task })
    }

    /// Where clients connect instead of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(front: Arc<UdpSocket>, server: SocketAddr, loss_percent: u64) {
    let mut backs: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut answers = JoinSet::new();
    let mut dice = Dice(0x1234_5678_9abc_def1);
    let mut packet = [0; PACKET];
    while let Ok((length, client)) = front.recv_from(&mut packet).await {
        let back = match backs.get(&client) {
            Some(back) => Arc::clone(back),
            None => {
                let Ok(back) = UdpSocket::bind((server.ip(), 0)).await.map(Arc::new) else { return };
                answers.spawn(answer(Arc::clone(&back), Arc::clone(&front), client, loss_percent));
                backs.insert(client, Arc::clone(&back));
                back
            }
        };
        if dice.percent() >= loss_percent {
            // A send that fails is a lost packet too.
            drop(back.send_to(&packet[..length], server).await);
        }
    }
}

async fn answer(back: Arc<UdpSocket>, front: Arc<UdpSocket>, client: SocketAddr, loss_percent: u64) {
    let mut dice = Dice(0x0fed_cba9_8765_4321);
    let mut packet = [0; PACKET];
    while let Ok((length, _)) = back.recv_from(&mut packet).await {
        if dice.percent() >= loss_percent {
            drop(front.send_to(&packet[..length], client).await);
        }
    }
}

/// Uniform numbers (xorshift64*).
struct Dice(u64);

impl Dice {
    fn percent(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % 100
    }
}
