// Reads the messages that clients.py found, as lines of JSON, and prints what the CloudEvents SDK makes of each.

const { HTTP, Kafka } = require("cloudevents");

const PREFIXES = { rabbitmq: "cloudEvents_", nats: "ce-" };

// The SDK has no binding for AMQP and none for NATS, whose attributes are those of HTTP under other names.
function byHttp(message, payload) {
  const prefix = PREFIXES[message.broker];
  const headers = { "content-type": message.type };
  for (const [name, value] of Object.entries(message.headers)) {
    if (name.startsWith(prefix)) {
      // HTTP's encoding is left to whoever calls the SDK.
      headers["ce-" + name.slice(prefix.length)] = message.broker === "nats" ? decodeURIComponent(value) : value;
    }
  }
  const isText = message.type.includes("json");
  return HTTP.toEvent({ headers, body: isText ? payload.toString() : payload });
}

// It has none for Redis either; the attributes are called as in Kafka's.
function byKafka(message, payload) {
  const headers = { "content-type": message.type, ...message.headers };
  return Kafka.toEvent({ headers, key: message.key ?? undefined, value: payload });
}

function data(event) {
  if (event.data_base64 !== undefined && event.data === undefined) {
    return Buffer.from(event.data_base64, "base64").toString("hex");
  }
  // Bytes come as an array of bytes, whatever its type.
  return ArrayBuffer.isView(event.data) ? Buffer.from(Array.from(event.data)).toString("hex") : event.data;
}

const lines = require("fs").readFileSync(0, "utf8").split("\n").filter(Boolean);
for (const message of lines.map((line) => JSON.parse(line))) {
  const payload = Buffer.from(message.payload, "hex");
  const event = message.broker in PREFIXES ? byHttp(message, payload) : byKafka(message, payload);
  event.validate();
  console.log(
    JSON.stringify({
      id: event.id,
      source: event.source,
      type: event.type,
      subject: event.subject ?? null,
      partitionkey: event.partitionkey ?? null,
      time: Date.parse(event.time),
      datacontenttype: event.datacontenttype,
      data: data(event),
    }),
  );
}
