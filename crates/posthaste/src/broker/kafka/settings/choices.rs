//! What a setting can be that is one of a few.

/// Who must have an event before it counts as delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acks {
    /// All replicas that are in sync, as many as the topic's `min.insync.replicas` at least.
    #[default]
    All,
    /// The leader of the partition: what it had alone is lost with it.
    Leader,
    /// Nobody: what was sent counts as delivered, and may be lost.
    Nobody,
}

impl Acks {
    /// The first name of each is Kafka's own.
    pub(super) const NAMES: [(&'static str, Self); 6] = [
        ("all", Self::All),
        ("-1", Self::All),
        ("1", Self::Leader),
        ("one", Self::Leader),
        ("0", Self::Nobody),
        ("none", Self::Nobody),
    ];

    /// As Kafka calls it.
    pub(in crate::broker::kafka) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, found)| *found == self).map_or("all", |(name, _)| name)
    }
}

/// How batches are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// As gzip does.
    Gzip,
    /// As snappy does.
    Snappy,
    /// As lz4 does.
    Lz4,
    /// As zstd does.
    Zstd,
}

impl Compression {
    pub(super) const NAMES: [(&'static str, Self); 5] = [
        ("none", Self::None),
        ("gzip", Self::Gzip),
        ("snappy", Self::Snappy),
        ("lz4", Self::Lz4),
        ("zstd", Self::Zstd),
    ];

    /// As Kafka calls it.
    pub(in crate::broker::kafka) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, found)| *found == self).map_or("none", |(name, _)| name)
    }
}

/// How user and password are shown to the brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sasl {
    /// As they are.
    #[default]
    Plain,
    /// By a challenge, with SHA-256; needs the feature `kafka-tls`.
    ScramSha256,
    /// By a challenge, with SHA-512; needs the feature `kafka-tls`.
    ScramSha512,
}

impl Sasl {
    pub(super) const NAMES: [(&'static str, Self); 3] =
        [("PLAIN", Self::Plain), ("SCRAM-SHA-256", Self::ScramSha256), ("SCRAM-SHA-512", Self::ScramSha512)];

    /// As Kafka calls it.
    pub(in crate::broker::kafka) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, found)| *found == self).map_or("PLAIN", |(name, _)| name)
    }
}
