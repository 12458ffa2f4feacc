"""Publishes an event in the transaction that makes it true: python publish.py postgres://shop@localhost/shop 42

It needs a table of your own, CREATE TABLE orders (id bigint PRIMARY KEY, version bigint NOT NULL DEFAULT 0), the rights of
the role posthaste_publish, and psycopg (requirements.txt).
"""

import json
import sys
import uuid

import psycopg

PUBLISH = """
    INSERT INTO posthaste_events (event_id, source, event_type, topic, key, headers, payload)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
"""

# Only for producers that cannot lock or change what the key names before they publish: the second of two transactions
# with the same key waits here until the first has ended.
IN_ORDER = """
    SELECT pg_advisory_xact_lock(hashtext('posthaste_order'), (hashtextextended(%s, 0) & 255)::integer)
"""


def place_order(connection: psycopg.Connection, order: int) -> str:
    event_id = str(uuid.uuid4())
    key = f"order-{order}"
    # Leaving the block commits both or, after an exception, neither.
    with connection.transaction():
        connection.execute(IN_ORDER, [key])
        connection.execute(
            "INSERT INTO orders (id) VALUES (%s) ON CONFLICT (id) DO UPDATE SET version = orders.version + 1", [order]
        )
        payload = json.dumps({"order": order, "by": "python"}).encode()
        headers = json.dumps({"correlation": event_id})
        connection.execute(PUBLISH, [event_id, "/shop", "order.placed", "orders", key, headers, payload])
    return event_id


if __name__ == "__main__":
    url, order = sys.argv[1:]
    with psycopg.connect(url) as connection:
        print(place_order(connection, int(order)))
