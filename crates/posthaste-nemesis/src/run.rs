//! One run, from an empty folder to its verdict.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use fastrand::Rng;
use posthaste::admin::{Actor, Command, Filter, LaneStats, Pace, all_lanes};
use posthaste_testkit::proxy::Weather;
use posthaste_testservers::{Interrupt, Run};
use tokio::time::sleep;

use crate::base::Base;
use crate::check::{Evidence, Findings};
use crate::engine::Engine;
use crate::fault::{Fault, Link};
use crate::hands::{self, STOPPED_WITHIN};
use crate::lanes::{IN_HAND_MAX, Which};
use crate::plan::{Plan, RELAYS};
use crate::stage::{Stage, With};
use crate::truth::{Direct, Truth};
use crate::worker::{self, lock};
use crate::{Failure, Result};

/// After the last fault something more is to be delivered and settled within this, again and again until everything is. A backlog
/// may be as long as the run.
const DRAINED_WITHIN: Duration = Duration::from_secs(90);
/// And everything within this.
const DRAINED_MAX: Duration = Duration::from_secs(15 * 60);
/// A lane that has delivered so many flows.
const FLOWS_AFTER: u64 = 50;
const PRUNE_EVERY: Duration = Duration::from_millis(300);
const SECONDS_MAX: u64 = 30 * 60;
/// So many of a kind are named; all of them are in the files.
const NAMED_MAX: usize = 10;

/// What is asked for.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where the events are kept; MariaDB has tables only.
    #[arg(long, value_enum, default_value_t = Base::Postgres)]
    store: Base,
    /// Where it is delivered: `local:` is a file that the relay itself writes, anything else a broker whose consumers are looked at.
    #[arg(long, default_value = "local:", value_parser = places())]
    to: String,
    /// How events are kept: in the log, or as rows of an outbox table.
    #[arg(long, value_enum, default_value_t = Engine::Log)]
    engine: Engine,
    /// How long faults are inflicted.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: u64,
    /// Decides faults and transactions; without it a random one, which the last line names.
    #[arg(long)]
    seed: Option<u64>,
    /// The relays reach Postgres through PgBouncer in transaction mode.
    #[arg(long)]
    pooled: bool,
    /// The lanes deliver into consumers; each event must have its effect once.
    #[arg(long)]
    consume: bool,
    /// Keeps the files of a run in which nothing failed, too.
    #[arg(long)]
    keep: bool,
}

/// Runs it; the answer tells whether nothing was wrong.
pub(crate) fn main(options: &Options) -> Result<bool> {
    let interrupt = Interrupt::on_signals()?;
    let run = Arc::new(Run::private(&interrupt)?);
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..100_000));
    let folder = make_folder(&run, seed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        tokio::select! {
            done = perform(&run, options, seed, &folder) => done,
            () = interrupted(&interrupt) => Err("interrupted; everything that was started has ended".into()),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    match done {
        Ok(true) if !options.keep => std::fs::remove_dir_all(&folder)?,
        _ => eprintln!("what happened is in {}", folder.display()),
    }
    done
}

async fn interrupted(interrupt: &Interrupt) {
    while interrupt.check().is_ok() {
        sleep(Duration::from_millis(50)).await;
    }
}

/// In the target folder, beside the folder of the servers, which goes with the run.
fn make_folder(run: &Run, seed: u64) -> Result<PathBuf> {
    let target =
        run.folder().parent().and_then(Path::parent).ok_or("a run's folder is in the target folder")?;
    let folder = target.join("nemesis").join(format!("{seed}-{:08x}", fastrand::u32(..)));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[expect(clippy::print_stdout, reason = "the last line is the answer")]
async fn perform(run: &Arc<Run>, options: &Options, seed: u64, folder: &Path) -> Result<bool> {
    let length = Duration::from_secs(options.seconds);
    if options.engine == Engine::Table && (options.consume || options.to != "local:") {
        return Err("a table is delivered to local: only; leave --consume away".into());
    }
    if options.store == Base::Mariadb && (options.engine == Engine::Log || options.pooled) {
        return Err("MariaDB has no log and no pooler; say --engine table, and leave --pooled away".into());
    }
    let broker = crate::brokers::named(&options.to);
    // What is in a broker is looked for by consumers.
    let consume = options.consume || broker.is_some();
    let with = With { base: options.store, engine: options.engine, pooled: options.pooled, consume, broker };
    let plan = match (with.broker, with.consume) {
        (Some(_), _) => Plan::through_broker(seed, length),
        (None, true) => Plan::consuming(seed, length),
        (None, false) => Plan::new(seed, length),
    };
    let stage = Stage::set(run, folder.to_owned(), seed, with).await?;
    let (gave_up, faults) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    if with.broker.is_some() {
        until_every_lane_flows(&stage).await?;
    }
    let ended = tokio::select! {
        ended = under_faults(&stage, &plan, seed, length, &faults) => ended,
        lost_sight = stage.look_after(&gave_up) => lost_sight,
    };
    let heal = async {
        ended?;
        tokio::select! {
            healed = heal(&stage, seed) => healed,
            lost_sight = stage.look_after(&gave_up) => lost_sight.and(Err("nobody looks after them".into())),
        }
    };
    let judged = match heal.await {
        Ok(lanes) => judge(&stage, &lanes, consume).await,
        Err(error) => Err(error),
    };
    keep_server_log(&stage);
    let mut findings = judged?;
    findings.wrong.append(&mut lock(&gave_up));

    let bound = if consume { 0 } else { duplicates_max(&lock(&faults), options.engine.lanes().len()) };
    let judgement = &findings.judgement;
    if consume {
        let not_once = judgement.lost.len() + judgement.phantom.len() + judgement.duplicates;
        println!("{}, seed {seed}, effects other than once: {not_once}", judgement.summary(bound));
    } else {
        println!("{}, seed {seed}", judgement.summary(bound));
    }
    let is_good = findings.judgement.is_good(bound) && findings.wrong.is_empty();
    if !is_good {
        let told = tell(&findings);
        eprint!("{told}");
        std::fs::write(folder.join("verdict"), told)?;
    }
    Ok(is_good)
}

/// What can stand after `--to`.
fn places() -> clap::builder::PossibleValuesParser {
    let brokers = crate::brokers::ALL.map(|broker| broker.name);
    std::iter::once("local:").chain(brokers).collect::<Vec<_>>().into()
}

/// A quorum queue of RabbitMQ 3.10 whose broker was killed while its consumers declared it was seen to confirm nothing and to answer
/// no consumer for ten minutes and eleven more kills. So the first fault comes when each queue has had something to do.
async fn until_every_lane_flows(stage: &Stage) -> Result<()> {
    let store = stage.engine.open(&stage.url).await?;
    until(DRAINED_WITHIN, async || {
        let lanes = all_lanes(&*store).await?;
        let flowing = lanes.iter().filter(|lane| lane.delivered >= FLOWS_AFTER).count();
        if flowing == stage.engine.lanes().len() { Ok(()) } else { Err("not every lane flows".into()) }
    })
    .await?;
    stage.note("every lane flows");
    Ok(())
}

/// Every fault may take each lane from its owner, or each relay's rows from that, as often as it says, and each time what was
/// in hand comes again.
fn duplicates_max(faults: &[Fault], lanes: usize) -> usize {
    faults.iter().map(Fault::repeats).sum::<usize>() * lanes.max(RELAYS) * IN_HAND_MAX
}

/// Both hands at work, with retention beside them and somebody who says how far it is.
async fn under_faults(
    stage: &Stage,
    plan: &Plan,
    seed: u64,
    length: Duration,
    done: &Mutex<Vec<Fault>>,
) -> Result<()> {
    let begun = Instant::now();
    let hands = async {
        tokio::try_join!(
            hands::work(stage, &plan.lines, Rng::with_seed(seed ^ 1), begun + length, done),
            hands::work(stage, &plan.servers, Rng::with_seed(seed ^ 2), begun + length, done),
        )?;
        sleep(length.saturating_sub(begun.elapsed())).await;
        Ok(())
    };
    tokio::select! {
        done = hands => done,
        broken = prune(stage) => broken,
        () = show(stage, begun, done) => Ok(()),
    }
}

/// Removes what every lane has settled, again and again. The server may be away.
async fn prune(stage: &Stage) -> Result<()> {
    let store = stage.engine.open(&stage.url).await?;
    let command = Command::Prune { delivered_age: Some(Duration::ZERO), dead_age: None, dry_run: false };
    loop {
        let actor = Actor::new("nemesis", "cli");
        if let Err(error) = store.apply(&Filter::default(), command.clone(), &actor, &Pace::full()).await
            && !error.retryable()
        {
            return Err(Failure::from(error));
        }
        sleep(PRUNE_EVERY).await;
    }
}

/// A line that is written over and over, for whoever looks.
async fn show(stage: &Stage, begun: Instant, faults: &Mutex<Vec<Fault>>) {
    let is_terminal = std::io::stderr().is_terminal();
    loop {
        sleep(Duration::from_secs(1)).await;
        let count = async { Direct::connect(&stage.url).await?.count().await };
        let committed = count.await.map_or_else(|_: Failure| "?".to_owned(), |count| count.to_string());
        if is_terminal {
            let faults = lock(faults).len();
            eprint!("\r{} s, {faults} faults, {committed} committed   ", begun.elapsed().as_secs());
        }
    }
}

/// Ends all faults and all producers, waits until everything is settled, and stops the relays.
async fn heal(stage: &Stage, seed: u64) -> Result<Vec<LaneStats>> {
    stage.note("heal");
    stage.set_weather(Link::All, Weather::Fair);
    stage.start_servers().await?;
    for producer in &stage.producers {
        worker::stop(producer, STOPPED_WITHIN).await?;
    }
    stage.cut(Link::Producers);
    let direct = until(DRAINED_WITHIN, async || Direct::connect(&stage.url).await).await?;
    direct.end_transactions(&mut Rng::with_seed(seed), DRAINED_WITHIN).await?;
    stage.note("every transaction has ended");

    let store = stage.engine.open(&stage.url).await?;
    let begun = Instant::now();
    let settled = async || match (direct.pending(stage.engine).await?, all_lanes(&*store).await?) {
        (0, lanes) if lanes.len() == stage.engine.lanes().len() => Ok(0),
        (pending, _) => Ok(pending.max(1)),
    };
    if let Err(error) = until_none_is_left(settled).await {
        return Err(format!("{error} not settled: {:#?}", all_lanes(&*store).await?).into());
    }
    stage.note(&format!("drained after {:?}", begun.elapsed()));
    if stage.broker_url().is_some() {
        let expected = effects(&direct.truth().await?);
        let unseen = async || Ok(expected - crate::consumer::count(&direct).await?.min(expected));
        until_none_is_left(unseen)
            .await
            // What is lost is told by name, below.
            .unwrap_or_else(|error| stage.note(&format!("{error} without their effects")));
        stage.note(&format!("consumed after {:?}", begun.elapsed()));
    }
    for relay in &stage.relays {
        worker::stop(relay, STOPPED_WITHIN).await?;
    }
    Ok(all_lanes(&*store).await?)
}

/// How many effects all consumers together are to have.
fn effects(truth: &[Truth]) -> i64 {
    let of = |which: Which| {
        truth.iter().filter(|truth| which.wants(&truth.topic) && !which.refuses(&truth.event_type)).count()
    };
    i64::try_from(Engine::Log.lanes().iter().copied().map(of).sum::<usize>()).unwrap_or(i64::MAX)
}

/// Asks until there is an answer; the last error if there is none in time.
async fn until<T>(within: Duration, mut ask: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if begun.elapsed() > within => {
                return Err(format!("not within {within:?}: {error}").into());
            }
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Asks how many are left until none is; gives up where that changes no more.
async fn until_none_is_left(mut left: impl AsyncFnMut() -> Result<i64>) -> Result<()> {
    let begun = Instant::now();
    let (mut last, mut since) = (i64::MAX, begun);
    loop {
        // A server that does not answer yet is no progress.
        match left().await.unwrap_or(last) {
            0 => return Ok(()),
            _ if begun.elapsed() > DRAINED_MAX => {
                return Err(format!("after {DRAINED_MAX:?} {last} or fewer are").into());
            }
            now if now != last => (last, since) = (now, Instant::now()),
            _ if since.elapsed() > DRAINED_WITHIN => {
                return Err(format!("for {DRAINED_WITHIN:?} {last} are").into());
            }
            _ => {}
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn judge(stage: &Stage, lanes: &[LaneStats], consume: bool) -> Result<Findings> {
    let direct = Direct::connect(&stage.url).await?;
    if consume {
        crate::consumer::write_down(&direct, &stage.folder).await?;
    }
    let (truth, mut dead) = (direct.truth().await?, direct.dead(stage.engine).await?);
    let broker = stage.broker_url();
    if let Some(url) = &broker {
        if !dead.is_empty() {
            return Err(format!("events are dead before the broker: {dead:?}").into());
        }
        dead = crate::consumer::dead(url).await?;
    }
    let mut text = String::new();
    for row in &truth {
        writeln!(
            text,
            "{} {} {} {} {}",
            row.id,
            row.key.as_deref().unwrap_or("-"),
            row.n,
            row.topic,
            row.event_type
        )?;
    }
    std::fs::write(stage.folder.join("truth"), text)?;
    std::fs::write(stage.folder.join("lanes"), format!("{lanes:#?}\n"))?;
    Evidence {
        engine: stage.engine,
        folder: &stage.folder,
        truth: &truth,
        lanes,
        dead: &dead,
        by_broker: broker.is_some(),
    }
    .judge()
}

/// The server's own folder goes with it.
fn keep_server_log(stage: &Stage) {
    // Without it the rest is still worth having.
    let _ = std::fs::copy(lock(&stage.server).log(), stage.folder.join("server.log"));
}

fn tell(findings: &Findings) -> String {
    let mut told = String::new();
    let judgement = &findings.judgement;
    for (what, ids) in [
        ("lost", &judgement.lost),
        ("phantom", &judgement.phantom),
        ("order broken", &judgement.order_broken),
    ] {
        for id in ids.iter().take(NAMED_MAX) {
            told.extend([what, ": ", id, "\n"]);
        }
    }
    for wrong in findings.wrong.iter().take(NAMED_MAX) {
        told.extend(["wrong: ", wrong, "\n"]);
    }
    told
}
