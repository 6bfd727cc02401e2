//! What every method under test does.
use super::fleet::Fleet;

/// Engine number of each slot.
pub(super) type Table = Vec<u16>;

pub(super) trait Method {
    fn name(&self) -> &'static str;

    /// A table without history.
    fn start(&mut self, fleet: &Fleet) -> anyhow::Result<Table>;

    /// The table for other weights. `table` is in force; `formers` served its slots before.
    fn next(&mut self, table: &[u16], fleet: &Fleet, formers: &[u16]) -> anyhow::Result<Table>;

    /// The fallbacks of `table`, where the method has any; `before`: a table and its fallbacks, in force before it.
    fn fallbacks(
        &mut self,
        before: Option<(&[u16], &[u16])>,
        table: &[u16],
        fleet: &Fleet,
    ) -> anyhow::Result<Option<Vec<u16>>>;

    /// Tables that are worth the time in each case: steps of a method without history are all alike.
    fn builds(&self, fleet: &Fleet) -> usize;
}
