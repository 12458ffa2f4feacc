SELECT id, token::text, snap::text, low FROM {prefix}ticks ORDER BY id DESC LIMIT 1
