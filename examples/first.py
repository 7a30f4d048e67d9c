"""The first program of the README: one network, one number.  python examples/first.py"""

from shoal.simulation import RunConfig, simulate

config = RunConfig(
    nodes=100,
    topology={"name": "abstract-tree", "rate": 10.0},  # ten links a second are replaced
    reconfiguration={"name": "strawman"},
)
result = simulate(config)
events = result.tables["publications"].to_pandas()
print(f"{events.received.sum() / events.owed.sum():.1%} of the deliveries owed were made")
print(f"{result.messages:,} messages, fingerprint {result.fingerprint}")
