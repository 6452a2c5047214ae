"""Sends changes of persons with RudderStack's library, as order.mjs does: python order.py URL KEY USERS CHANGES MILLISECONDS"""
import json
import sys
import time

import rudderstack.analytics as rudder

failures = []
rudder.dataPlaneUrl, rudder.write_key = sys.argv[1:3]
rudder.on_error = lambda error, batch: failures.append(str(error))
users, changes, milliseconds = map(int, sys.argv[3:])
n = 0
while n < changes:
    row = min(1 + n % 4, changes - n)
    for u in range(users):
        for k in range(row):
            rudder.identify(f"rudderstack-python-{u}", {"n": n + k})
    n += row
    time.sleep(milliseconds / changes * row / 1000)
rudder.shutdown()
print(json.dumps({"failures": failures}))
