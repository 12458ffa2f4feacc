//! What is true at the end, whatever went wrong.

use std::collections::{HashMap, HashSet};

use posthaste_core::admin::{Admin, EventState, LaneState, Page};
use posthaste_core::lane::Order;

use crate::world::{ATTEMPTS, World, in_lane};

pub(crate) async fn all(world: &World) -> Result<(), String> {
    if let Some(wrong) = &world.shore.lock().unwrap().wrong {
        return Err(wrong.clone());
    }
    let stats = world.stats().await;
    if !stats.adds_up() {
        return Err(format!("the totals do not add up: {stats:?}"));
    }
    if stats.state != LaneState::Active {
        return Err(format!("the target takes events and the lane says {:?}", stats.state));
    }
    fates(world).await?;
    order(world)
}

/// Every event reached the target or is dead for a reason, and what counts as delivered was delivered.
async fn fates(world: &World) -> Result<(), String> {
    let found = world.memory.find(&in_lane(), Page::first(1_000)).await.map_err(|error| error.to_string())?;
    if found.records.len() != world.sent.len() {
        return Err(format!("{} events of {}", found.records.len(), world.sent.len()));
    }
    let shore = world.shore.lock().unwrap();
    let reached: HashSet<&str> = shore.reached.iter().map(|reached| reached.id.as_str()).collect();
    for record in &found.records {
        let (id, view) = (record.envelope.id.as_str(), &record.lanes[0]);
        match view.state {
            EventState::Delivered if reached.contains(id) => {}
            EventState::Delivered => return Err(format!("{id} counts as delivered and never arrived")),
            EventState::Dead => {
                let code = view.code.as_deref().unwrap_or_default();
                let killed = code == "crash" && shore.panics > 0;
                if !(matches!(code, "rejected" | "too large") || view.attempts >= ATTEMPTS || killed) {
                    return Err(format!("{id} is dead without a reason: {view:?}"));
                }
            }
            other => return Err(format!("{id} is {other:?} in the end")),
        }
    }
    Ok(())
}

/// First deliveries of a key follow the order of the log; scheduled, redriven and replayed events stand outside.
fn order(world: &World) -> Result<(), String> {
    if world.order == Order::None {
        return Ok(());
    }
    let numbers: HashMap<&str, usize> =
        world.sent.iter().enumerate().map(|(number, sent)| (sent.id.as_str(), number)).collect();
    let mut last: HashMap<&str, usize> = HashMap::new();
    let mut seen = HashSet::new();
    for reached in &world.shore.lock().unwrap().reached {
        let number =
            *numbers.get(reached.id.as_str()).ok_or(format!("{} was never published", reached.id))?;
        let sent = &world.sent[number];
        let Some(key) = sent.key.as_deref() else { continue };
        if !seen.insert(number) || sent.scheduled || reached.replay {
            continue;
        }
        if let Some(before) = last.insert(key, number)
            && before > number
        {
            return Err(format!("e{number} came after e{before}, a later event of its key {key}"));
        }
    }
    Ok(())
}
