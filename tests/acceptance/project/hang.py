"""Never ends by itself."""

import time

print("acceptance: waiting", flush=True)
time.sleep(100_000)
