//! What a column of an outbox table is for.

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Column {
    /// Names the event; unique in the table.
    Id,
    /// What happened.
    Type,
    /// The event itself.
    Payload,
    /// When the row was made.
    CreatedAt,
    /// The row's state.
    Status,
    /// How often delivery was tried and failed.
    Attempts,
    /// Not to be delivered before.
    AvailableAt,
    /// The token of the claim that holds the row.
    LockedBy,
    /// When that claim was made or renewed.
    LockedAt,
    /// Where it goes; without this column the type says it.
    Topic,
    /// Routes, and orders unless there is an ordering key.
    Key,
    /// Orders.
    OrderingKey,
    /// Headers: an object of strings.
    Headers,
    /// Where it comes from.
    Source,
    /// What it is about.
    Subject,
    /// How the payload is encoded.
    ContentType,
    /// The version of the payload's schema.
    Version,
    /// When it happened.
    OccurredAt,
    /// When it was delivered.
    DeliveredAt,
    /// When the row was last changed.
    UpdatedAt,
    /// What its last failure said.
    LastError,
    /// How often this row is tried at most, whatever the policy says.
    MaxAttempts,
    /// A number that grows with each row: tells the order of rows of one moment.
    Sequence,
    /// The trace in which it happened; becomes a header of this name.
    TraceId,
    /// What it belongs to beyond one trace; becomes a header of this name.
    CorrelationId,
}

/// What a column holds, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Text of any length.
    Text,
    /// Text of a type of its own with a list of values.
    Enum,
    /// A UUID.
    Uuid,
    /// A whole number.
    Int,
    /// Bytes.
    Bytes,
    /// JSON.
    Json,
    /// A moment, with its time zone.
    Time,
    /// Something else.
    Other,
}

impl Column {
    /// Every column there may be.
    pub const ALL: [Self; 25] = [
        Self::Id,
        Self::Type,
        Self::Payload,
        Self::CreatedAt,
        Self::Status,
        Self::Attempts,
        Self::AvailableAt,
        Self::LockedBy,
        Self::LockedAt,
        Self::Topic,
        Self::Key,
        Self::OrderingKey,
        Self::Headers,
        Self::Source,
        Self::Subject,
        Self::ContentType,
        Self::Version,
        Self::OccurredAt,
        Self::DeliveredAt,
        Self::UpdatedAt,
        Self::LastError,
        Self::MaxAttempts,
        Self::Sequence,
        Self::TraceId,
        Self::CorrelationId,
    ];

    /// The word for it in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Type => "type",
            Self::Payload => "payload",
            Self::CreatedAt => "created_at",
            Self::Status => "status",
            Self::Attempts => "attempts",
            Self::AvailableAt => "available_at",
            Self::LockedBy => "locked_by",
            Self::LockedAt => "locked_at",
            Self::Topic => "topic",
            Self::Key => "key",
            Self::OrderingKey => "ordering_key",
            Self::Headers => "headers",
            Self::Source => "source",
            Self::Subject => "subject",
            Self::ContentType => "content_type",
            Self::Version => "version",
            Self::OccurredAt => "occurred_at",
            Self::DeliveredAt => "delivered_at",
            Self::UpdatedAt => "updated_at",
            Self::LastError => "last_error",
            Self::MaxAttempts => "max_attempts",
            Self::Sequence => "sequence",
            Self::TraceId => "trace_id",
            Self::CorrelationId => "correlation_id",
        }
    }

    /// The column with this word.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    /// Whether a table without it cannot be relayed.
    pub fn is_needed(self) -> bool {
        matches!(
            self,
            Self::Id
                | Self::Type
                | Self::Payload
                | Self::CreatedAt
                | Self::Status
                | Self::Attempts
                | Self::AvailableAt
                | Self::LockedBy
                | Self::LockedAt
        )
    }

    /// Whether the relay writes it; the others are the producer's and never change.
    pub fn is_written(self) -> bool {
        matches!(
            self,
            Self::Status
                | Self::Attempts
                | Self::AvailableAt
                | Self::LockedBy
                | Self::LockedAt
                | Self::DeliveredAt
                | Self::UpdatedAt
                | Self::LastError
        )
    }

    /// What it may hold.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Id => &[Kind::Uuid, Kind::Text, Kind::Int],
            Self::Payload => &[Kind::Bytes, Kind::Json, Kind::Text],
            Self::Status => &[Kind::Text, Kind::Enum],
            Self::LockedBy => &[Kind::Text, Kind::Uuid],
            Self::Headers => &[Kind::Json, Kind::Text],
            Self::Attempts | Self::Version | Self::MaxAttempts | Self::Sequence => &[Kind::Int],
            Self::Key | Self::OrderingKey | Self::TraceId | Self::CorrelationId => {
                &[Kind::Text, Kind::Uuid, Kind::Int]
            }
            Self::CreatedAt
            | Self::AvailableAt
            | Self::LockedAt
            | Self::OccurredAt
            | Self::DeliveredAt
            | Self::UpdatedAt => &[Kind::Time],
            Self::Type | Self::Topic | Self::Source | Self::Subject | Self::ContentType | Self::LastError => {
                &[Kind::Text, Kind::Enum]
            }
        }
    }
}

impl Kind {
    /// The word for it, with which mistakes are reported.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Enum => "an enum",
            Self::Uuid => "uuid",
            Self::Int => "a whole number",
            Self::Bytes => "bytes",
            Self::Json => "json",
            Self::Time => "a time with its zone",
            Self::Other => "something else",
        }
    }
}
