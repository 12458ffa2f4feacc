use posthaste::Consumer;

fn main() {
    let _ = Consumer::new("stock", "postgres://localhost/shop", ());
}
