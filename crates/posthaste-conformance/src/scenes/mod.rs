//! The scenes, one file for what belongs together.

mod crashing;
mod delivering;
mod failing;
mod leasing;
mod operating;
mod ordering;
mod producing;
mod sharing;

use super::scene::{Scene, SceneOf};
use futures_util::future::LocalBoxFuture;

use super::Stop;

type Run = for<'a, 'b> fn(&'a mut Scene<'b>) -> LocalBoxFuture<'a, Result<(), Stop>>;

const fn scene(name: &'static str, about: &'static [&'static str], run: Run) -> SceneOf {
    SceneOf { name, about, is_leasing: false, is_ordered: false, is_operated: false, run }
}

/// The same, where leases end.
const fn with_leases(name: &'static str, about: &'static [&'static str], run: Run) -> SceneOf {
    SceneOf { is_leasing: true, ..scene(name, about, run) }
}

/// All scenes, in the order in which they are played.
pub(super) const ALL: [SceneOf; 13] = [
    scene("committing", &["P1", "P2"], producing::committing),
    scene("claiming", &["L2"], producing::claiming),
    scene("delivering", &["L4", "L5", "L1", "P3", "S3", "U3", "U4", "D2"], delivering::delivering),
    scene("waiting", &["L3", "L8", "S3"], delivering::waiting),
    scene("failing", &["L6", "L7", "R2", "U1", "U2", "U5"], failing::failing),
    with_leases("expiring", &["S5", "L6"], leasing::expiring),
    with_leases("sleeping", &["L9"], leasing::sleeping),
    with_leases("crashing with rows in hand", &["L10"], crashing::after_the_claim),
    with_leases("crashing after publishing", &["L10"], crashing::after_publishing),
    scene("sharing", &["S4", "S2", "U5"], sharing::sharing),
    scene("limiting", &["S1"], sharing::limiting),
    SceneOf {
        name: "ordering",
        about: &["O1", "O2", "X5"],
        is_leasing: true,
        is_ordered: true,
        is_operated: true,
        run: ordering::ordering,
    },
    SceneOf {
        name: "operating",
        about: &["X1", "X2", "X3", "X4", "X6", "X7", "X8"],
        is_leasing: false,
        is_ordered: false,
        is_operated: true,
        run: operating::operating,
    },
];
