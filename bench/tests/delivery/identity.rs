//! Certificates: who gets in, as whom, and for how long.
use std::{net::SocketAddr, time::Duration};

use penstock_bench::delivery::{
    lab::{Lab, publish, tls_in},
    memory::Memory,
};
use penstock_controller::{ca, weights::Cause};
use penstock_wire::{
    Hello, HostOrders, ToController, Version,
    transport::{CONTROLLER_NAME, Close, client_config, write_message},
};
use quinn::{Connection, ConnectionError, Endpoint};

use crate::wait::{for_agent, for_epoch};

const SLOTS: usize = 1 << 10;
const DAY: Duration = Duration::from_secs(86_400);

/// Connects with the files in the host's folder.
async fn connect(
    lab: &Lab,
    host: &str,
    controller: SocketAddr,
) -> Result<(Endpoint, Connection), ConnectionError> {
    let credentials = tls_in(&lab.path(host)).load().unwrap();
    let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let settings = client_config(&credentials).unwrap();
    let connection = endpoint.connect_with(settings, controller, CONTROLLER_NAME).unwrap().await?;
    Ok((endpoint, connection))
}

/// How the controller ends a connection on which `message` was sent.
async fn ending(connection: &Connection, message: &[u8]) -> ConnectionError {
    if let Ok((mut send, _receive)) = connection.open_bi().await {
        // The connection may end first; how it ends is what counts.
        drop(write_message(&mut send, message).await);
        return connection.closed().await;
    }
    connection.closed().await
}

fn closed_as(error: &ConnectionError, close: Close) -> bool {
    matches!(error, ConnectionError::ApplicationClosed(closed) if closed.error_code == close.code())
}

fn hello(host: &str, frontend: &str) -> Vec<u8> {
    ToController::Hello(Hello {
        host: host.into(),
        frontend: frontend.into(),
        held: None,
        orders: HostOrders::default(),
    })
    .encode(Version::NEWEST)
}

#[tokio::test]
async fn certificates_that_have_ended_or_are_of_another_authority_do_not_get_in() {
    let lab = Lab::new(1, 2, SLOTS).unwrap();
    let publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    ca::init(&lab.path("other-ca"), DAY).unwrap();
    lab.issue_agent("ca", "ended", "A", Duration::ZERO).unwrap();
    lab.issue_agent("other-ca", "stranger", "A", DAY).unwrap();
    std::fs::copy(lab.path("ca").join("ca.pem"), lab.path("stranger").join("ca.pem")).unwrap();

    for host in ["ended", "stranger"] {
        let error = match connect(&lab, host, publisher.address()).await {
            Err(error) => error,
            Ok((_endpoint, connection)) => ending(&connection, &hello(host, "A")).await,
        };

        // The alert's code tells which: 45 is an ended certificate, 48 an unknown authority. A certificate may end
        // between the handshake and the session.
        let alert = if host == "ended" { 0x100 + 45 } else { 0x100 + 48 };
        let refused = match &error {
            ConnectionError::ConnectionClosed(close) => u64::from(close.error_code) == alert,
            other => host == "ended" && closed_as(other, Close::Expired),
        };
        assert!(refused, "{host}: {error}");
    }
    assert!(publisher.agents().is_empty());
    publisher.shutdown().await;
}

#[tokio::test]
async fn a_controller_of_another_authority_is_not_believed() {
    let lab = Lab::new(1, 2, SLOTS).unwrap();
    let publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    ca::init(&lab.path("other-ca"), DAY).unwrap();
    lab.issue_agent("ca", "a-0", "A", DAY).unwrap();
    std::fs::copy(lab.path("other-ca").join("ca.pem"), lab.path("a-0").join("ca.pem")).unwrap();

    let error = connect(&lab, "a-0", publisher.address()).await.unwrap_err();

    assert!(matches!(error, ConnectionError::TransportError(_)), "{error}");
    publisher.shutdown().await;
}

#[tokio::test]
async fn an_agents_certificate_does_not_make_a_controller() {
    let lab = Lab::new(1, 2, SLOTS).unwrap();
    lab.issue_agent("ca", "a-0", "A", DAY).unwrap();
    for file in ["cert.pem", "key.pem"] {
        std::fs::copy(lab.path("a-0").join(file), lab.path("controller").join(file)).unwrap();
    }
    let publisher = lab.controller(None, Duration::ZERO).await.unwrap();

    let error = connect(&lab, "a-0", publisher.address()).await.unwrap_err();

    assert!(matches!(error, ConnectionError::TransportError(_)), "{error}");
    publisher.shutdown().await;
}

#[tokio::test]
async fn an_agent_speaks_only_for_the_host_and_frontend_of_its_certificate() {
    let lab = Lab::new(1, 2, SLOTS).unwrap();
    let publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    lab.issue_agent("ca", "a-0", "A", DAY).unwrap();

    for (host, frontend) in [("a-0", "B"), ("a-1", "A")] {
        let (_endpoint, connection) = connect(&lab, "a-0", publisher.address()).await.unwrap();
        let error = ending(&connection, &hello(host, frontend)).await;
        assert!(closed_as(&error, Close::Identity), "{error}");
    }
    assert!(publisher.agents().is_empty());
    publisher.shutdown().await;
}

#[tokio::test]
async fn a_certificate_that_names_no_host_is_turned_away() {
    let lab = Lab::new(1, 2, SLOTS).unwrap();
    let publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    // Signed by the fleet's authority and good for a client, but without a name.
    let key = rcgen::KeyPair::from_pem(&std::fs::read_to_string(lab.path("ca").join("ca-key.pem")).unwrap())
        .unwrap();
    let authority = std::fs::read_to_string(lab.path("ca").join("ca.pem")).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_pem(&authority, key).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let own = rcgen::KeyPair::generate().unwrap();
    let certificate = params.signed_by(&own, &issuer).unwrap();
    std::fs::create_dir(lab.path("nobody")).unwrap();
    std::fs::write(lab.path("nobody").join("ca.pem"), authority).unwrap();
    std::fs::write(lab.path("nobody").join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(lab.path("nobody").join("key.pem"), own.serialize_pem()).unwrap();

    let (_endpoint, connection) = connect(&lab, "nobody", publisher.address()).await.unwrap();

    let error = connection.closed().await;
    assert!(closed_as(&error, Close::Identity), "{error}");
    publisher.shutdown().await;
}

#[tokio::test]
async fn a_message_that_is_damaged_or_too_long_or_one_too_many_ends_the_session() {
    let lab = Lab::new(1, 2, SLOTS).unwrap();
    let publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    lab.issue_agent("ca", "a-0", "A", DAY).unwrap();

    let mut damaged = hello("a-0", "A");
    damaged[3] ^= 1;
    for message in [damaged, vec![0; 100_000]] {
        let (_endpoint, connection) = connect(&lab, "a-0", publisher.address()).await.unwrap();
        let error = ending(&connection, &message).await;
        assert!(closed_as(&error, Close::Protocol), "{error}");
    }
    let (_endpoint, connection) = connect(&lab, "a-0", publisher.address()).await.unwrap();
    let (mut send, _receive) = connection.open_bi().await.unwrap();
    while write_message(&mut send, &hello("a-0", "A")).await.is_ok() {}
    let error = connection.closed().await;
    assert!(closed_as(&error, Close::Rate), "{error}");
    publisher.shutdown().await;
}

#[tokio::test]
async fn a_second_session_of_a_host_replaces_the_first() {
    let lab = Lab::new(1, 2, SLOTS).unwrap();
    let publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    lab.issue_agent("ca", "a-0", "A", DAY).unwrap();
    let (_first_endpoint, first) = connect(&lab, "a-0", publisher.address()).await.unwrap();
    let (mut send, _receive) = first.open_bi().await.unwrap();
    write_message(&mut send, &hello("a-0", "A")).await.unwrap();
    for_agent(&publisher, "a-0", |status| status.connected).await;

    let (_second_endpoint, second) = connect(&lab, "a-0", publisher.address()).await.unwrap();
    let (mut send, _receive) = second.open_bi().await.unwrap();
    write_message(&mut send, &hello("a-0", "A")).await.unwrap();

    let error = first.closed().await;
    assert!(closed_as(&error, Close::Replaced), "{error}");
    publisher.shutdown().await;
}

#[tokio::test]
async fn certificates_change_on_both_sides_without_a_restart() {
    let lab = Lab::new(1, 2, SLOTS).unwrap();
    let mut publisher = lab.controller(None, Duration::ZERO).await.unwrap();
    lab.issue_agent("ca", "a-0", "A", Duration::from_secs(3)).unwrap();
    let mut agent = lab.agent("a-0", publisher.address(), Memory::new(0)).unwrap();
    let first = publish(&mut publisher, &lab, &lab.weights(&[1.0, 1.0], Cause::Routine)).unwrap().unwrap();
    for_epoch(&mut agent.in_force, first.epoch).await;
    let old_end = for_agent(&publisher, "a-0", |status| status.connected).await.certificate_ends;

    ca::rotate(&lab.path("ca"), DAY).unwrap();
    lab.issue_controller(DAY).unwrap();
    lab.issue_agent("ca", "a-0", "A", DAY).unwrap();

    // The first certificate ends within seconds; the session that it opened ends with it, and the next one has the new.
    for_agent(&publisher, "a-0", |status| status.connected && status.certificate_ends > old_end).await;
    let second = publish(&mut publisher, &lab, &lab.weights(&[1.2, 0.8], Cause::Routine)).unwrap().unwrap();
    for_epoch(&mut agent.in_force, second.epoch).await;
    agent.stop().await.unwrap();
    publisher.shutdown().await;
}
