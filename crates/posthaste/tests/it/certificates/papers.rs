//! What a broker and its client show each other, in files, and what neither should accept.

use tempfile::TempDir;

use crate::certificates::Ca;

/// Certificates of a server called `localhost` and of a client, signed by the same CA, and a CA that nobody knows.
pub(crate) struct Papers {
    folder: TempDir,
    /// The file of the CA that signed both.
    pub(crate) trusted: String,
    /// The files of the server's certificate and its key.
    pub(crate) server: (String, String),
    /// The client's, as settings of a URL.
    client: String,
    stranger: String,
}

impl Papers {
    pub(crate) fn new() -> Self {
        let (folder, ca) = (TempDir::new().unwrap(), Ca::new("ours"));
        let file = |name: &str, contents: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, contents).unwrap();
            file.display().to_string()
        };
        let pair = |name: &str| {
            let (certificate, key) = ca.sign(name, 2100);
            (file(&format!("{name}.pem"), &certificate), file(&format!("{name}.key"), &key))
        };
        let (server, client) = (pair("localhost"), pair("client"));
        let client = format!("sslcert={}&sslkey={}", client.0, client.1);
        let (trusted, stranger) = (file("ca.pem", &ca.pem), file("stranger.pem", &Ca::new("theirs").pem));
        Self { folder, trusted, server, client, stranger }
    }

    /// The host and the settings with which a connection is made.
    pub(crate) fn right(&self) -> (&'static str, String) {
        ("localhost", format!("sslrootcert={}&{}", self.trusted, self.client))
    }

    /// Those with which none may be made, where the server wants a certificate of its client.
    pub(crate) fn wrong(&self) -> [(&'static str, String); 4] {
        let Self { trusted, client, stranger, .. } = self;
        [
            ("localhost", format!("sslrootcert={stranger}&{client}")),
            ("127.0.0.1", format!("sslrootcert={trusted}&{client}")),
            // The public CAs do not know ours.
            ("localhost", client.clone()),
            ("localhost", format!("sslrootcert={trusted}")),
        ]
    }

    /// A file that is not there.
    pub(crate) fn missing(&self) -> String {
        self.folder.path().join("no").display().to_string()
    }
}
