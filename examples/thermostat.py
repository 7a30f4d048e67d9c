"""Sensors publish temperatures; a thermostat listens to its own rooms and answers questions.

Runs a network of its own, so that there is nothing to start first: python examples/thermostat.py
"""

from __future__ import annotations

import asyncio

from shoal.live import Bus
from shoal.testing import Network


async def thermostat(bus: Bus, ready: asyncio.Event) -> None:
    """Remember the warmest lab, and say which it is when asked."""
    warmest = ("nowhere", 0.0)

    async def answer() -> None:
        async with bus.subscribe("question = 'warmest'") as questions:
            ready.set()
            async for question in questions:
                await bus.reply(question, room=warmest[0], celsius=warmest[1])

    task = asyncio.create_task(answer())
    async with bus.subscribe("celsius > 20 AND room LIKE 'lab%'") as readings:
        async for reading in readings:
            celsius = float(reading["celsius"] or 0)
            if celsius > warmest[1]:
                warmest = (str(reading["room"]), celsius)
    await task


async def main() -> None:
    """Four brokers, a sensor at one and the thermostat at another."""
    async with Network(4) as network, network.connect(0) as sensor, network.connect(3) as bus:
        ready = asyncio.Event()
        task = asyncio.create_task(thermostat(bus, ready))
        await ready.wait()
        await network.settled()
        for room, celsius in (("lab1", 21.5), ("hall", 30.0), ("lab2", 24.0), ("lab3", 19.0)):
            await sensor.publish(room=room, celsius=celsius)
        await asyncio.sleep(0.2)
        reply = await sensor.request(question="warmest")
        print(f"{reply['room']} is the warmest lab: {reply['celsius']} °C")
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
