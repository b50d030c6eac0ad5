"""What a run is made of: its checked inputs, its plan, the compiled loop, its chains, and what is kept of them."""
