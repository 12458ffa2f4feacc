-- Publishes an event in the transaction that makes it true:
--   psql postgres://shop@localhost/shop --set order=42 --file publish.sql
-- It needs a table of your own: CREATE TABLE orders (id bigint PRIMARY KEY, version bigint NOT NULL DEFAULT 0);
-- and the rights of the role posthaste_publish.
\set ON_ERROR_STOP on
BEGIN;

-- Whatever the key names is changed or locked first: that gives its events their order.
INSERT INTO orders (id) VALUES (:order) ON CONFLICT (id) DO UPDATE SET version = orders.version + 1;

-- Three columns are enough. Never name seq or xid: they are the database's.
INSERT INTO posthaste_events (event_id, event_type, key, payload)
VALUES (gen_random_uuid(), 'order.placed', 'order-' || :order,
        convert_to(jsonb_build_object('order', :order, 'by', 'psql')::text, 'UTF8'));

COMMIT;
