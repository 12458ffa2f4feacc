-- What durability and cleaning rest on, and the statement that takes it back where somebody changed it for this user or database.
SELECT name, setting,
       CASE source WHEN 'database' THEN format('ALTER DATABASE %I RESET %I', current_database(), name)
                   WHEN 'user' THEN format('ALTER ROLE %I RESET %I', session_user, name)
                   WHEN 'database user' THEN format('ALTER ROLE %I IN DATABASE %I RESET %I', session_user, current_database(), name)
                   WHEN 'global' THEN format('ALTER ROLE ALL RESET %I', name) END AS back
FROM pg_catalog.pg_settings
WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'autovacuum', 'track_counts')
