//! Carries out what the plan says.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use posthaste_testkit::proxy::Weather;
use posthaste_testservers::Server;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::Result;
use crate::base::Base;
use crate::fault::{Fault, Link};
use crate::plan::Step;
use crate::stage::{Stage, act_on};
use crate::truth::Direct;
use crate::worker::{self, Worker, lock};

/// A relay that is to end itself at a point need not come to it: it may own nothing.
const POINT_WITHIN: Duration = Duration::from_secs(4);
/// The relay's grace period, and what a busy machine adds to it.
pub(crate) const STOPPED_WITHIN: Duration = Duration::from_secs(20);

/// Does one step after the other; begins none when the time is over.
pub(crate) async fn work(
    stage: &Stage,
    steps: &[Step],
    mut rng: Rng,
    until: Instant,
    done: &Mutex<Vec<Fault>>,
) -> Result<()> {
    for step in steps {
        sleep(step.pause).await;
        if Instant::now() >= until {
            break;
        }
        stage.note(&format!("{:?}", step.fault));
        lock(done).push(step.fault.clone());
        inflict(stage, &step.fault, &mut rng).await.map_err(|error| format!("{:?}: {error}", step.fault))?;
        stage.note("healed");
    }
    Ok(())
}

async fn inflict(stage: &Stage, fault: &Fault, rng: &mut Rng) -> Result<()> {
    match *fault {
        Fault::KillRelay { relay, down } => kill(&stage.relays[relay], down).await,
        Fault::KillProducer { producer, down } => kill(&stage.producers[producer], down).await,
        Fault::StopRelay { relay, down } => {
            let took = worker::stop(&stage.relays[relay], STOPPED_WITHIN).await?;
            stage.note(&format!("stopped after {took:?}"));
            sleep(down).await;
            lock(&stage.relays[relay]).start(&[])
        }
        Fault::CrashRelay { relay, point, nth } => crash(stage, &stage.relays[relay], point, nth).await,
        Fault::FreezeRelay { relay, span } => freeze(&stage.relays[relay], span).await,
        Fault::FreezeProducer { producer, span } => freeze(&stage.producers[producer], span).await,
        Fault::KillServer { down } => restart(&stage.server, Server::kill, down).await,
        Fault::StopServer { down } => stop_server(stage, down).await,
        Fault::QuitServer { down } => restart(&stage.server, Server::quit, down).await,
        Fault::KillBroker { down } => restart(stage.broker()?, Server::kill, down).await,
        Fault::StopBroker { down } => restart(stage.broker()?, Server::stop, down).await,
        Fault::KillBackend if stage.base() == Base::Mariadb => {
            let one = async { Direct::connect(&stage.url).await?.terminate_one(rng).await };
            // A server that still recovers from the fault before has ended everybody already.
            if let Err(error) = one.await {
                stage.note(&format!("nobody to end: {error}"));
            }
            Ok(())
        }
        Fault::KillBackend => {
            if let Some(pid) = some_backend(stage, rng) {
                // Gone in this moment: then nothing happens, this time.
                let _ = kill_process(pid, Signal::KILL);
            }
            Ok(())
        }
        Fault::Terminate => {
            // A server that still recovers from the fault before has ended everybody already.
            if let Err(error) = terminate(stage).await {
                stage.note(&format!("nobody to end: {error}"));
            }
            Ok(())
        }
        Fault::Cut { link } => {
            stage.cut(link);
            Ok(())
        }
        Fault::Stall { link, span } => weather(stage, link, Weather::Stall, span).await,
        Fault::Deafen { link, span } => weather(stage, link, Weather::Deaf, span).await,
        Fault::HalfOpen { link, span } => weather(stage, link, Weather::HalfOpen, span).await,
        Fault::Delay { link, by, span } => weather(stage, link, Weather::Delay(by), span).await,
        Fault::Refuse { link, span } => weather(stage, link, Weather::Refuse, span).await,
    }
}

async fn terminate(stage: &Stage) -> Result<()> {
    Direct::connect(&stage.url).await?.terminate_others().await
}

async fn kill(worker: &Mutex<Worker>, down: Duration) -> Result<()> {
    lock(worker).kill()?;
    sleep(down).await;
    lock(worker).start(&[])
}

async fn freeze(worker: &Mutex<Worker>, span: Duration) -> Result<()> {
    lock(worker).signal(Signal::STOP);
    sleep(span).await;
    lock(worker).signal(Signal::CONT);
    Ok(())
}

/// Puts a relay in its place that ends itself at a point, waits for that, and puts an ordinary one there again.
async fn crash(stage: &Stage, relay: &Mutex<Worker>, point: &str, nth: u32) -> Result<()> {
    {
        let mut relay = lock(relay);
        relay.kill()?;
        relay.start(&["--crash", point, &nth.to_string()])?;
        relay.is_down = true;
    }
    let begun = Instant::now();
    while begun.elapsed() < POINT_WITHIN {
        if let Some(status) = lock(relay).ended()? {
            stage.note(&format!("crashed: {status}"));
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    let mut relay = lock(relay);
    relay.kill()?;
    relay.start(&[])
}

/// Postgres that is asked to end in the moment in which it begins to recover from a killed backend may never end (seen with
/// 15.18): it is killed then, which is a fault as good as the other.
async fn stop_server(stage: &Stage, down: Duration) -> Result<()> {
    if let Err(error) = act_on(&stage.server, Server::stop).await {
        let why = error.to_string();
        if !why.contains("did not end") {
            return Err(error);
        }
        stage.note(&format!("killed instead: {}", why.lines().next().unwrap_or_default()));
    }
    // Nobody is left to kill.
    restart(&stage.server, Server::kill, down).await
}

async fn restart(
    server: &Arc<Mutex<Server>>,
    end: fn(&mut Server) -> posthaste_testservers::Result<()>,
    down: Duration,
) -> Result<()> {
    act_on(server, end).await?;
    sleep(down).await;
    act_on(server, Server::start).await
}

async fn weather(stage: &Stage, link: Link, weather: Weather, span: Duration) -> Result<()> {
    stage.set_weather(link, weather);
    sleep(span).await;
    stage.set_weather(link, Weather::Fair);
    Ok(())
}

/// A process of the server that serves a client.
fn some_backend(stage: &Stage, rng: &mut Rng) -> Option<Pid> {
    let postmaster = lock(&stage.server).pid()?;
    let mut backends: Vec<i32> = std::fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| serves_a_client(*pid, postmaster))
        .collect();
    backends.sort_unstable();
    Pid::from_raw(*rng.choice(&backends)?)
}

/// `/proc/PID/stat` is `pid (name) state parent …`; the title of such a process names user, database and address.
fn serves_a_client(pid: i32, postmaster: u32) -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let stat = read("stat");
    let parent = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(1)?.parse().ok());
    parent == Some(postmaster) && read("cmdline").contains("127.0.0.1(")
}
