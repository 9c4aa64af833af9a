# Runs OpenStack Swift with its S3 API in one process, and prints its address: python3 swift-server.py <folder>. It ends when its standard input ends.
import eventlet

eventlet.monkey_patch()

import array
import os
import shutil
import sys

from eventlet import listen, tpool, wsgi
from swift.common import utils
from swift.common.ring import RingData
from swift.common.storage_policy import reload_storage_policies
from swift.common.wsgi import loadapp

folder = sys.argv[1]
common = f"[DEFAULT]\nswift_dir = {folder}\ndevices = {folder}/devices\nmount_check = false\n"
storage = "[pipeline:main]\npipeline = server\n[app:server]\nuse = egg:swift#{kind}\n"
proxy = """[pipeline:main]
pipeline = catch_errors cache s3api tempauth proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_owner = secret .admin
user_test_stranger = secret
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
"""


def write(name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


os.makedirs(f"{folder}/devices/disk")
write("swift.conf", "[swift-hash]\nswift_hash_path_suffix = test\n")
utils.set_swift_dir(folder)
reload_storage_policies()
kinds = ["account", "container", "object", "proxy"]
sockets = {kind: listen(("127.0.0.1", 0)) for kind in kinds}
ports = {kind: sockets[kind].getsockname()[1] for kind in kinds}
for kind in kinds[:3]:
    disk = {"id": 0, "region": 1, "zone": 1, "ip": "127.0.0.1", "port": ports[kind], "device": "disk", "weight": 1}
    RingData([array.array("H", [0])], [disk], 32).save(f"{folder}/{kind}.ring.gz")
for kind in kinds:
    app = loadapp(write(f"{kind}.conf", common + (proxy if kind == "proxy" else storage.format(kind=kind))))
    eventlet.spawn(wsgi.server, sockets[kind], app, log_output=False)
print(f"http://127.0.0.1:{ports['proxy']}", flush=True)
tpool.execute(sys.stdin.buffer.raw.read)
shutil.rmtree(folder)
