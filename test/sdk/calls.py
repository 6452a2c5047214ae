"""Makes one call of each kind with RudderStack's library: python calls.py URL KEY"""
import sys

import rudderstack.analytics as rudder

rudder.dataPlaneUrl, rudder.write_key = sys.argv[1:3]
user = "rudderstack-python-user"
context = {"campaign": {"name": "spring", "source": "mail"}, "app": {"name": "Shop", "version": "2"}}
rudder.identify(user, {"plan": "pro"}, anonymous_id="rudderstack-python-anon")
rudder.track(user, "bought", {"n": 1}, context=context)
rudder.page(user, "Docs", "Home", {"url": "https://shop.example/"})
rudder.group(user, "acme", {"seats": 5})
rudder.flush()
