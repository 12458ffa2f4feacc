//! What every store obeys, by subject.

pub mod cancelling;
pub mod claiming;
pub mod commanding;
pub mod dying;
pub mod finding;
pub mod leasing;
pub mod operating;
pub mod parking;
pub mod passing;
pub mod pruning;
pub mod publishing;
pub mod reviewing;
pub mod rows;
pub mod steering;
pub mod waking;
