//! Every server that this machine has can be killed, stopped and started again, as fault tests do.

use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use posthaste_testservers::{Interrupt, Kind, Run, Server};

fn main() -> ExitCode {
    let trials = Kind::ALL.into_iter().map(|kind| {
        let name = format!("{}_comes_back_where_it_was", kind.name());
        let installed = kind.is_installed() && (kind != Kind::Pgbouncer || Kind::Postgres.is_installed());
        if !installed {
            eprintln!("skipped: {name}: not installed");
        }
        Trial::test(name, move || comes_back_where_it_was(kind)).with_ignored_flag(!installed)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Starts, kills, starts, stops, starts: each start answers at the same URL, and in between nobody does.
fn comes_back_where_it_was(kind: Kind) -> Result<(), Failed> {
    let run = Arc::new(Run::private(&Interrupt::default())?);
    let mut postgres = None;
    if kind == Kind::Pgbouncer {
        postgres = Some(Server::new(Kind::Postgres, &run, None)?);
    }
    if let Some(postgres) = &mut postgres {
        postgres.start()?;
    }
    let mut server = Server::new(kind, &run, postgres.as_ref().map(Server::url).as_deref())?;
    let url = server.url();

    server.start()?;
    server.kill()?;
    refuses_connections(&url)?;
    server.start()?;
    server.stop()?;
    refuses_connections(&url)?;
    server.start()?;
    if server.url() != url { Err("it came back elsewhere".into()) } else { Ok(()) }
}

fn refuses_connections(url: &str) -> Result<(), Failed> {
    let address =
        url.rsplit(['@', '/']).find(|part| part.starts_with("127.0.0.1:")).ok_or("no address in the URL")?;
    if TcpStream::connect(address).is_ok() { Err(format!("{address} still answers").into()) } else { Ok(()) }
}
