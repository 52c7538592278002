"""Streams of completions read with asyncio, for comparison with sweepctl's client: load-bench starts it.

    asyncio_client.py PORT STREAMS FIRST_SEED

Prints the seconds from the first request to the last reply, of CPU and of the clock; then, for each stream, one line with the
times (CLOCK_MONOTONIC, ns) at which its tokens were received. A time is taken right after a line was read, before it is
parsed.
"""
import asyncio
import json
import resource
import sys
import time


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def stream(port, seed):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"prompt": [1, 2, 3], "stream": True}).encode()[:-1] + b',"seed":%d}' % seed
    writer.write(
        b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    while await reader.readline() != b"\r\n":
        pass
    times = []
    while size := int(await reader.readline(), 16):
        event = await reader.readexactly(size + 2)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        data = event.strip().removeprefix(b"data: ")
        if data == b"[DONE]":
            continue
        times += [now] * len(json.loads(data)["choices"][0]["token_ids"])
    writer.close()
    return times


async def main():
    port, streams, first_seed = (int(argument) for argument in sys.argv[1:4])
    cpu_before, begin = cpu_seconds(), time.monotonic()
    all_times = await asyncio.gather(*(stream(port, first_seed + i) for i in range(streams)))
    print(cpu_seconds() - cpu_before, time.monotonic() - begin)
    for times in all_times:
        print(*times)


asyncio.run(main())
