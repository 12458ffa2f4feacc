//! Looks for a pair of headers in the heads of requests, on their way to the parser.
//!
//! A request with both `Transfer-Encoding` and `Content-Length` means one thing to one program and something
//! else to the next, which is how requests are smuggled past proxies. The parser reads such a request by its
//! `Transfer-Encoding`, closes the connection after it, and hides the other header from the handler.
//! So the only place to find it is the bytes.

const LENGTH: &[u8] = b"content-length";
const ENCODING: &[u8] = b"transfer-encoding";

/// Scans one head, byte by byte, until the empty line that ends it.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadScan {
    /// The beginning of the current line, in lower case, up to a colon.
    name: Vec<u8>,
    line: Line,
    has_request_line: bool,
    has_length: bool,
    has_encoding: bool,
    is_over: bool,
}

/// Where in a line the scan is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    /// In what may be a header's name.
    #[default]
    Name,
    /// Behind a colon, or in a name that is longer than those that are looked for.
    Rest,
}

impl HeadScan {
    /// Scans further bytes, and answers whether the head has both headers so far.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            if self.is_over {
                break;
            }
            self.byte(byte);
        }
        self.has_length && self.has_encoding
    }

    fn byte(&mut self, byte: u8) {
        match (byte, self.line) {
            (b'\n', line) => {
                let is_empty = line == Line::Name && self.name.is_empty();
                // Empty lines before a request are allowed.
                self.is_over = is_empty && self.has_request_line;
                self.has_request_line |= !is_empty;
                self.name.clear();
                self.line = Line::Name;
            }
            (b'\r', _) | (_, Line::Rest) => {}
            (b':', Line::Name) => {
                self.has_length |= self.name == LENGTH;
                self.has_encoding |= self.name == ENCODING;
                self.line = Line::Rest;
            }
            (_, Line::Name) if self.name.len() == ENCODING.len() => self.line = Line::Rest,
            (byte, Line::Name) => self.name.push(byte.to_ascii_lowercase()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str =
        "\r\nPOST / HTTP/1.1\r\nHost: a:1\r\nTransfer-Encoding: chunked\r\nCONTENT-LENGTH: 3\r\n\r\n";

    #[test]
    fn both_headers_are_found_in_any_order_and_however_the_bytes_come() {
        let swapped = "POST / HTTP/1.1\ncontent-length:3\nx: y\ntransfer-encoding:chunked\n\n";
        for head in [BOTH, swapped] {
            assert!(HeadScan::default().scan(head.as_bytes()), "{head}");
            let mut slow = HeadScan::default();
            assert!(head.bytes().fold(false, |_, byte| slow.scan(&[byte])), "{head}");
        }
    }

    #[test]
    fn one_header_a_similar_name_a_value_or_a_body_is_not_both() {
        for head in [
            "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nx-content-length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length-x: 3\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nx: content-length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\ncontent-length: 3\r\n",
        ] {
            assert!(!HeadScan::default().scan(head.as_bytes()), "{head}");
        }
    }
}
