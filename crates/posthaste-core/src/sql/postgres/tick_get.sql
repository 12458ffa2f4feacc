SELECT id, token::text, snap::text, low FROM {prefix}ticks WHERE id = ANY ($1)
