import { generateKeyPairSync, randomBytes, sign } from "node:crypto";

/** A key and a certificate for 127.0.0.1 and these names, that nobody has signed but itself (RFC 5280, section 4.1). */
export function createCertificate(...hosts: string[]): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ecdsaWithSha256 = der(0x30, der(0x06, Buffer.from("2a8648ce3d040302", "hex")));
  const commonName = der(0x30, der(0x06, Buffer.from("550403", "hex")), der(0x0c, Buffer.from("127.0.0.1")));
  const name = der(0x30, der(0x31, commonName));
  const validity = der(0x30, der(0x17, Buffer.from("250101000000Z")), der(0x17, Buffer.from("490101000000Z")));
  const names = hosts.map((host) => der(0x82, Buffer.from(host)));
  const address = der(0x30, der(0x87, Buffer.from([127, 0, 0, 1])), ...names);
  const alternativeName = der(0x30, der(0x06, Buffer.from("551d11", "hex")), der(0x04, address));
  const content = der(
    0x30,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ...[ecdsaWithSha256, name, validity, name],
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, der(0x30, alternativeName)),
  );
  const signature = Buffer.concat([Buffer.from([0]), sign("sha256", content, privateKey)]);
  const whole = der(0x30, content, ecdsaWithSha256, der(0x03, signature));
  const lines = whole.toString("base64").replace(/.{64}(?=.)/g, "$&\n");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
}

function der(tag: number, ...parts: Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
