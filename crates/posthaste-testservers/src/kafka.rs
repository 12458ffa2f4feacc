//! Kafka: one node that is broker and controller, and has every acknowledged message on disk, so that laws may kill it.
//!
//! Its jars are resolved once by Maven. Where Maven or Java is not to be had there is no Kafka, which is no failure: nothing
//! else that the tests need comes by this way.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Recipe;
use crate::child::tail;
use crate::error::{Doing as _, Error, Result};
use crate::interrupt::Interrupt;
use crate::kind::find;
use crate::port::Port;
use crate::run::{Run, workspace};

/// The last line of versions that runs on Java 17.
const VERSION: &str = "3.9.1";
/// Kafka's log goes where everybody's does, by this.
const LOGGER_VERSION: &str = "1.7.36";
const SETTINGS: &str = "server.properties";
/// A cold Maven fetches some hundred files.
const RESOLVED_WITHIN: Duration = Duration::from_secs(400);

#[derive(Debug)]
pub(crate) struct Kafka {
    home: PathBuf,
    port: Port,
    controller: Port,
}

impl Kafka {
    pub(crate) fn new(home: PathBuf) -> Result<Self> {
        program().ok_or_else(|| {
            Error::Unavailable("it needs Java 17 or later, and Maven to resolve it once".to_owned())
        })?;
        Ok(Self { home, port: Port::claim()?, controller: Port::claim()? })
    }

    /// Java with Kafka's jars, and this class of them.
    fn of(&self, class: &str) -> Result<Command> {
        let java = program().ok_or_else(|| Error::Unavailable("not installed".into()))?;
        let mut command = Command::new(java);
        command.current_dir(&self.home);
        // Small, and soon ready rather than fast.
        command.args(["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]);
        command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn").arg("-cp").arg(jars()?.join("*"));
        command.arg(class);
        Ok(command)
    }

    fn settings(&self) -> PathBuf {
        self.home.join(SETTINGS)
    }

    /// Tests may change the settings between two starts.
    fn settings_text(&self) -> String {
        let (port, controller) = (self.port.number(), self.controller.number());
        let data = self.home.join("data");
        format!(
            "process.roles=broker,controller\n\
             node.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
             controller.listener.names=CONTROLLER\n\
             log.dirs={}\n\
             # Every write is on disk before it is acknowledged.\n\
             log.flush.interval.messages=1\n\
             auto.create.topics.enable=false\n\
             default.replication.factor=1\n\
             offsets.topic.replication.factor=1\n\
             offsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\n\
             group.initial.rebalance.delay.ms=0\n\
             # A consumer that dies is missed soon.\n\
             group.min.session.timeout.ms=1000\n\
             # One that was killed is back when its old session is over.\n\
             broker.session.timeout.ms=3000\n\
             broker.heartbeat.interval.ms=500\n\
             log.cleaner.dedupe.buffer.size=8388608\n",
            data.display()
        )
    }
}

impl Recipe for Kafka {
    fn prepare(&self) -> Result<Option<Command>> {
        fs::write(self.settings(), self.settings_text()).doing("write the settings of Kafka")?;
        let mut command = self.of("kafka.tools.StorageTool")?;
        // The cluster's id: 16 bytes in base64.
        command.args(["format", "--cluster-id", "cG9zdGhhc3RlLXRlc3Qtcw", "--config"]).arg(self.settings());
        // A user for tests whose listeners ask for one: it cannot be made later without asking for one.
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            command.args(["--add-scram", &format!("{mechanism}=[name=me,password=hunter2]")]);
        }
        Ok(Some(command))
    }

    fn command(&self) -> Result<Command> {
        let mut command = self.of("kafka.Kafka")?;
        command.arg(self.settings());
        Ok(command)
    }

    /// Asks which requests it knows (`ApiVersions`, the oldest form) and hears an answer to that question without an error.
    fn answers(&self) -> io::Result<()> {
        let mut stream = self.port.connect()?;
        stream.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff])?;
        let mut head = [0; 10];
        stream.read_exact(&mut head)?;
        if head[4..] == [0, 0, 0, 7, 0, 0] {
            Ok(())
        } else {
            Err(io::Error::other("does not know its requests"))
        }
    }

    fn url(&self) -> String {
        format!("kafka://127.0.0.1:{}", self.port.number())
    }
}

/// Java, if it and Kafka's jars are there.
pub(crate) fn program() -> Option<PathBuf> {
    jars().ok().filter(|folder| folder.exists()).and_then(|_| find("java"))
}

fn jars() -> Result<PathBuf> {
    Ok(workspace()?.join("target").join("tools").join(format!("kafka-{VERSION}")))
}

/// Resolves Kafka's jars, unless they are there. Says so where they cannot be had.
pub(crate) fn fetch(run: &Run) {
    if program().is_some() {
        return;
    }
    if let Err(error) = try_fetch(run) {
        eprintln!("no Kafka: {error}");
    }
}

fn try_fetch(run: &Run) -> Result<()> {
    let lacking = |what: &str| Error::Unavailable(format!("there is no {what}"));
    find("java").ok_or_else(|| lacking("java"))?;
    let maven = find("mvn").ok_or_else(|| lacking("mvn"))?;
    let folder = run.new_folder("kafka-jars")?;
    fs::write(folder.join("pom.xml"), pom()).doing("write what Maven is to resolve")?;
    resolve(run, &maven, &folder)?;
    let place = jars()?;
    if let Some(tools) = place.parent() {
        fs::create_dir_all(tools).doing("make the folder for tools")?;
    }
    match fs::rename(folder.join("jars"), &place) {
        // Somebody was faster.
        Err(_) if place.exists() => Ok(()),
        // At once, so that nobody meets half of it.
        moved => moved.doing(format!("put {} in its place", place.display())),
    }
}

fn resolve(run: &Run, maven: &Path, folder: &Path) -> Result<()> {
    let log = folder.join("maven.log");
    let output = fs::File::create(&log).doing(format!("create {}", log.display()))?;
    let mut command = Command::new(maven);
    command.args(["--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=jars"]);
    command.current_dir(folder).stdin(Stdio::null());
    run.adopt(&mut command);
    command.stderr(output.try_clone().doing("share a log file")?).stdout(output);
    let mut child = command.spawn().doing("run mvn")?;
    let interrupt: &Interrupt = run.interrupt();
    let ended = interrupt.wait_for(RESOLVED_WITHIN, || child.try_wait().doing("look after mvn"))?;
    if ended.is_some_and(|status| status.success()) {
        return Ok(());
    }
    if ended.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let said = tail(&fs::read_to_string(&log).unwrap_or_default(), 5);
    Err(Error::Unavailable(format!("mvn did not resolve it: {said}")))
}

/// A project that consists of what it depends on.
fn pom() -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        )
    };
    format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>posthaste</groupId><artifactId>kafka-for-tests</artifactId>\
         <version>1</version><packaging>pom</packaging><dependencies>{}{}</dependencies></project>\n",
        dependency("org.apache.kafka", "kafka_2.13", VERSION),
        dependency("org.slf4j", "slf4j-simple", LOGGER_VERSION),
    )
}
