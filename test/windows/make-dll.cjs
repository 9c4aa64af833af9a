// Writes a DLL without code: it exports ProcessPrng, forwarded to SystemFunction036 (RtlGenRandom) of advapi32.
const fs = require("node:fs");
const [, , file] = process.argv;
const rva = 0x1000,
  b = Buffer.alloc(0x400);
const w32 = (o, v) => b.writeUInt32LE(v, o),
  w16 = (o, v) => b.writeUInt16LE(v, o);
b.write("MZ", 0);
w32(0x3c, 0x40);
b.write("PE\0\0", 0x40);
let o = 0x44;
w16(o, 0x8664);
w16(o + 2, 1);
w16(o + 16, 240);
w16(o + 18, 0x2022); // machine, sections, optional header's size, DLL | executable | large
o = 0x58;
w16(o, 0x20b);
w32(o + 8, 0x200); // PE32+, initialized data
b.writeBigUInt64LE(0x3f0000000n, o + 24);
w32(o + 32, 0x1000);
w32(o + 36, 0x200);
w16(o + 40, 6);
w16(o + 48, 6);
w32(o + 56, 0x2000);
w32(o + 60, 0x200);
w16(o + 68, 2);
w16(o + 70, 0x0160); // GUI; high entropy, dynamic base, NX
b.writeBigUInt64LE(0x100000n, o + 72);
b.writeBigUInt64LE(0x1000n, o + 80);
b.writeBigUInt64LE(0x100000n, o + 88);
b.writeBigUInt64LE(0x1000n, o + 96);
w32(o + 108, 16);
w32(o + 112, rva);
w32(o + 116, 0x100); // export directory
o = 0x58 + 240;
b.write(".edata", o);
w32(o + 8, 0x100);
w32(o + 12, rva);
w32(o + 16, 0x200);
w32(o + 20, 0x200);
w32(o + 36, 0x40000040);
const at = (r) => 0x200 + r;
const put = (r, s) => b.write(`${s}\0`, at(r));
put(0x60, "bcryptprimitives.dll");
put(0x80, "ProcessPrng");
put(0x90, "ADVAPI32.SystemFunction036");
w32(at(12), rva + 0x60);
w32(at(16), 1);
w32(at(20), 1);
w32(at(24), 1);
w32(at(28), rva + 0x40);
w32(at(32), rva + 0x44);
w32(at(36), rva + 0x48);
w32(at(0x40), rva + 0x90);
w32(at(0x44), rva + 0x80);
w16(at(0x48), 0);
fs.writeFileSync(file, b);
