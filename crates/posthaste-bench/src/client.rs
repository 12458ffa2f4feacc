//! A client that does nothing but publish over one kept-alive connection, at as little cost as it can.

use posthaste_terminal::exit::Failure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest answer to a publish that is understood.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

pub(super) struct Client {
    stream: TcpStream,
    head: String,
    answer: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(address: &str, key: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let head = format!(
            "POST /v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        );
        Ok(Self { stream, head, answer: Vec::with_capacity(1024) })
    }

    /// Publishes one event and waits until it is stored.
    pub(super) async fn publish(&mut self, body: &str) -> Result<(), Failure> {
        let request = format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let status = self.read_answer().await?;
        if status != 201 {
            let text = String::from_utf8_lossy(&self.answer);
            return Err(Failure::other(format!("publish: the server answered {status}: {text}")));
        }
        Ok(())
    }

    /// Reads one whole answer and returns its status.
    async fn read_answer(&mut self) -> Result<u16, Failure> {
        self.answer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.answer).await.map_err(failed)?;
            if read == 0 {
                return Err(Failure::other("publish: the server closed the connection"));
            }
            if let Some((status, length)) = parse(&self.answer)
                && self.answer.len() >= length
            {
                return Ok(status);
            }
            if self.answer.len() > ANSWER_BYTES_MAX {
                return Err(Failure::other("publish: the server's answer does not end"));
            }
        }
    }
}

/// Status and whole length of an answer whose head is complete.
fn parse(answer: &[u8]) -> Option<(u16, usize)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.get(9..12)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    Some((status, end + length))
}

fn failed(error: std::io::Error) -> Failure {
    Failure::other(format!("talk to the server: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(parse(answer), Some((201, answer.len())));
        assert_eq!(parse(&answer[..30]), None);
    }
}
