//! Who gives a command, and from where: for the record.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use posthaste::admin::Actor;

use crate::config::Environment;

/// The user of the operating system, on this host.
pub(super) fn of_process(environment: &Environment) -> Actor {
    // The owner of the process, as the kernel knows it: a variable says what somebody wants it to say.
    let uid = fs::metadata("/proc/self").ok().map(|process| process.uid());
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = uid.map(|uid| user(uid, &users, environment.get("SUDO_USER")));
    let name = name.or_else(|| environment.get("USER").map(str::to_owned));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Actor::new(name.unwrap_or_else(|| "unknown".to_owned()), via(host.trim()))
}

/// The user with this number; behind sudo, who asked for it.
fn user(uid: u32, users: &str, sudo: Option<&str>) -> String {
    if let Some(person) = sudo.filter(|_| uid == 0) {
        return person.to_owned();
    }
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("uid {uid}"))
}

fn via(host: &str) -> String {
    if host.is_empty() { "cli".to_owned() } else { format!("cli@{host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_as_the_system_names_it() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\neve:x:1001:1001::/home/eve:/bin/sh\n";
        assert_eq!(user(1001, users, None), "eve");
        assert_eq!(user(1001, users, Some("bob")), "eve", "only root can stand for somebody else");
        assert_eq!(user(0, users, None), "root");
        assert_eq!(user(0, users, Some("bob")), "bob");
        assert_eq!(user(65_532, users, None), "uid 65532", "a container has no such user");
        assert_eq!((via("db-1").as_str(), via("").as_str()), ("cli@db-1", "cli"));
    }
}
