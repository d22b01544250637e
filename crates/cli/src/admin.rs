//! The socket over which `taskgate tasks` reaches a gateway that has its store's file open alone.

use taskgate_gateway::admin::{AdminSocket, Desk};
use taskgate_gateway::{Gateway, StorePlace};

/// Listens for as long as the returned value lives. A gateway works without it, so a path that cannot be one only costs a line in
/// the log.
pub fn serve(gateway: &Gateway, place: &StorePlace) -> Option<AdminSocket> {
    let StorePlace::Sqlite(path) = place else { return None };
    match AdminSocket::serve(path, Desk::new(gateway.engine().clone())) {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::warn!(store = %path.display(), %error, "`taskgate tasks` cannot reach this gateway");
            None
        }
    }
}
