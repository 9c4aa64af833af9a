/** This machine itself, in every spelling the URL parser takes; %p is the port of a server that would count a connection. */
export const loopbackSpellings = [
  ...["127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.255.255.255", "2130706433", "017700000001", "0x7f000001"],
  ...["0x7f.1", "0x7F.0x0.0x0.0x1", "0177.0.0.1", "00000177.0.0.01", "0x7f.0.1", "%31%32%37.0.0.1", "127%2e0%2e0%2e1"],
  ...["１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "127．0．0．1", "0", "0.0.0.0", "0x0", "00.0"],
  ...["[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::]", "[::127.0.0.1]", "[::7f00:1]"],
  ...["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::FFFF:7F00:0001]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::ffff:0:0]"],
].map((host) => `http://${host}:%p/`);

/** Addresses of others that no service may connect to for a stranger. */
export const otherAddresses = [
  ...["10.0.0.1", "10.1", "0xa.1", "167772161", "172.16.0.1", "172.31.255.254", "192.168.1.1", "0300.0250.1.1"],
  ...[
    "100.64.0.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "169.254.43518",
    "168.63.129.16",
  ],
  ...[
    "100.100.100.200",
    "192.0.0.192",
    "198.18.0.1",
    "192.0.2.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "4294967295",
  ],
  ...[
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fc00::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
  ],
  ...[
    "[2002:7f00:1::]",
    "[2001::1]",
    "[2001:db8::1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:a00:1]",
    "[100::1]",
    "[5f00::1]",
  ],
].map((host) => `http://${host}/`);

/** What is no address to connect to at all. */
export const unusable = [
  ...["ftp://127.0.0.1:%p/", "file:///etc/passwd", "unix:/run/service.sock", "javascript:alert(1)", "data:,x", ""],
  ...["127.0.0.1:%p", "//127.0.0.1:%p/", "http://[fe80::1%25lo]:%p/", "http://[::1%lo]:%p/", "http://127.0.0.1:99999/"],
  ...["http://user@127.0.0.1:%p/", "http://user:pass@receiver.example/", "http://receiver.example@127.0.0.1:%p/"],
  ...["http://receiver.example:25/", "http://receiver.example:6667/", "https://receiver.example:22/"],
];

/** Names, by what they are said to be; every one has a forbidden answer. */
export const namedForbidden: Record<string, string[]> = {
  localhost: ["127.0.0.1", "::1"],
  "localhost.": ["127.0.0.1"],
  "loop.receiver.example": ["127.0.0.1"],
  "mapped.receiver.example": ["::ffff:127.0.0.1"],
  "zone.receiver.example": ["fe80::1%eth0"],
  "metadata.receiver.example": ["169.254.169.254"],
  "first-is-fine.receiver.example": ["93.184.215.14", "127.0.0.1"],
  "last-is-fine.receiver.example": ["127.0.0.1", "93.184.215.14"],
  "odd.receiver.example": ["0x7f.1"],
};
