"""What plain clients of brokers find, and what the CloudEvents SDK makes of it.

    clients.py prepare BROKER URL PLACE...
    clients.py read BROKER URL COUNT PLACE...

A place is what events of one lane are found under; their topic is `orders`. `prepare` makes what must be there before anything
is sent. `read` prints each message of every place as a line of JSON, in the order in which they are there, and removes what
`prepare` made.
"""

import asyncio
import json
import sys

from cloudevents.core.bindings import amqp, http, kafka
from cloudevents.core.formats.json import JSONFormat

TOPIC = "orders"
PATIENCE_SECONDS = 60


class RabbitMq:
    """An exchange and a queue that is bound to it, both called like the place."""

    def __init__(self, url):
        import pika

        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel = self.connection.channel()

    def prepare(self, place):
        self.channel.exchange_declare(place, "topic", durable=True)
        self.channel.queue_declare(place, durable=True)
        self.channel.queue_bind(place, place, "#")

    def read(self, place, count):
        messages = self.channel.consume(place, auto_ack=True, inactivity_timeout=PATIENCE_SECONDS)
        for _ in range(count):
            method, properties, payload = next(messages)
            assert method is not None, "a message is missing"
            headers = dict(properties.headers or {})
            yield {
                "topic": method.routing_key,
                "id": properties.message_id,
                "key": headers.get("cloudEvents_partitionkey"),
                "type": properties.content_type,
                "headers": headers,
                "payload": payload,
            }
        self.channel.cancel()
        self.channel.queue_delete(place)
        self.channel.exchange_delete(place)

    @staticmethod
    def event(message):
        properties = {"content-type": message["type"]}
        return amqp.from_amqp(
            amqp.AMQPMessage(properties, message["headers"], message["payload"]), JSONFormat()
        )


class Nats:
    """A stream called like the place, with which all its subjects begin."""

    def __init__(self, url):
        self.url = url

    def prepare(self, place):
        asyncio.run(self.with_streams(lambda streams: streams.add_stream(name=place, subjects=[f"{place}.>"])))

    def read(self, place, count):
        return asyncio.run(self.with_streams(lambda streams: self.read_stream(streams, place, count)))

    async def with_streams(self, work):
        import nats

        client = await nats.connect(self.url)
        try:
            return await work(client.jetstream(timeout=PATIENCE_SECONDS))
        finally:
            await client.close()

    async def read_stream(self, streams, place, count):
        subscription = await streams.subscribe(f"{place}.>", stream=place, ordered_consumer=True)
        messages = [await subscription.next_msg(timeout=PATIENCE_SECONDS) for _ in range(count)]
        await streams.delete_stream(place)
        return [self.found(message, place) for message in messages]

    @staticmethod
    def found(message, place):
        # Names that the client knows itself are members of an enum.
        text = lambda one: str(getattr(one, "value", one))
        headers = {text(name): text(value) for name, value in message.headers.items()}
        return {
            "topic": message.subject.removeprefix(f"{place}."),
            "id": headers["Nats-Msg-Id"],
            "key": headers.get("X-Partition-Key"),
            "type": headers["content-type"],
            "headers": headers,
            "payload": message.data,
        }

    @staticmethod
    def event(message):
        # The binding for NATS takes names and encoding from HTTP's.
        return http.from_http(http.HTTPMessage(message["headers"], message["payload"]), JSONFormat())


class Redis:
    """Streams whose names begin with the place and a colon."""

    def __init__(self, url):
        import redis

        self.client = redis.Redis.from_url(url)

    def prepare(self, place):
        pass

    def read(self, place, count):
        stream, last, messages = f"{place}:{TOPIC}", "0", []
        while len(messages) < count:
            answer = self.client.xread({stream: last}, block=PATIENCE_SECONDS * 1000)
            assert answer, "a message is missing"
            ((_, entries),) = answer.items() if isinstance(answer, dict) else answer
            # The newest protocol answers with the entries in a list of their own.
            entries = entries[0] if entries and isinstance(entries[0], list) else entries
            last = entries[-1][0]
            messages += [self.found(fields) for _, fields in entries]
        self.client.delete(stream)
        return messages

    @staticmethod
    def found(fields):
        fields = {name.decode(): value for name, value in fields.items()}
        payload = fields.pop("payload")
        fields = {name: value.decode() for name, value in fields.items()}
        headers = {name[2:]: value for name, value in fields.items() if name.startswith("h:")}
        return {
            "topic": TOPIC,
            "id": fields["id"],
            "key": fields.get("partition_key"),
            "type": headers.get("content-type", headers.get("ce_datacontenttype", "")),
            "headers": headers,
            "payload": payload,
        }

    @staticmethod
    def event(message):
        # There is no binding for Redis; the attributes are called as in Kafka's.
        headers = {name: value.encode() for name, value in message["headers"].items()}
        return kafka.from_kafka(kafka.KafkaMessage(headers, message["key"], message["payload"]), JSONFormat())


class Kafka:
    """A topic whose name begins with the place and a dot."""

    def __init__(self, url):
        self.config = {"bootstrap.servers": url.removeprefix("kafka://")}

    def admin(self):
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.config)

    def prepare(self, place):
        from confluent_kafka.admin import NewTopic

        # A client that nobody has any more is ended with what it was asked.
        admin = self.admin()
        (made,) = admin.create_topics([NewTopic(f"{place}.{TOPIC}", 1)]).values()
        made.result(PATIENCE_SECONDS)

    def read(self, place, count):
        from confluent_kafka import Consumer, OFFSET_BEGINNING, TopicPartition

        topic = f"{place}.{TOPIC}"
        consumer = Consumer({**self.config, "group.id": place})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages = [consumer.poll(PATIENCE_SECONDS) for _ in range(count)]
        consumer.close()
        admin = self.admin()
        (gone,) = admin.delete_topics([topic]).values()
        gone.result(PATIENCE_SECONDS)
        return [self.found(message) for message in messages]

    @staticmethod
    def found(message):
        assert message is not None and message.error() is None, "a message is missing"
        headers = {name: value.decode() for name, value in message.headers()}
        return {
            "topic": TOPIC,
            "id": headers["X-Event-ID"],
            "key": message.key().decode() if message.key() is not None else None,
            "type": headers["content-type"],
            "headers": headers,
            "payload": message.value(),
        }

    @staticmethod
    def event(message):
        headers = {name: value.encode() for name, value in message["headers"].items()}
        return kafka.from_kafka(kafka.KafkaMessage(headers, message["key"], message["payload"]), JSONFormat())


BROKERS = {"rabbitmq": RabbitMq, "nats": Nats, "redis": Redis, "kafka": Kafka}


def event_document(event):
    """The event as all SDKs are asked to tell it: bytes in hexadecimal, JSON as JSON, the time in milliseconds."""
    data = event.get_data()
    return {
        "id": event.get_id(),
        "source": event.get_source(),
        "type": event.get_type(),
        "subject": event.get_subject(),
        "partitionkey": event.get_extension("partitionkey"),
        "time": round(event.get_time().timestamp() * 1000),
        "datacontenttype": event.get_datacontenttype(),
        "data": data.hex() if isinstance(data, bytes) else data,
    }


def is_event(message):
    names = {name.lower() for name in message["headers"]}
    is_structured = message["type"].startswith("application/cloudevents")
    return is_structured or bool(names & {"ce-id", "ce_id", "cloudevents_id"})


def main(verb, broker, url, *rest):
    client = BROKERS[broker](url)
    if verb == "prepare":
        for place in rest:
            client.prepare(place)
        return
    count, *places = rest
    for place in places:
        for message in client.read(place, int(count)):
            event = event_document(client.event(message)) if is_event(message) else None
            payload = message["payload"].hex()
            print(json.dumps({**message, "payload": payload, "broker": broker, "place": place, "event": event}))


main(*sys.argv[1:])
