import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { readPage } from "../../../src/docs.ts";
import { createCertificate } from "../../faults/certificate.ts";
import { lacks, nginx } from "../../needs.ts";
import { bin, createMachine } from "../machine.ts";

/** In namespaces of its own, whose processes all end with it. */
const apart = ["-rnm", "--pid", "--fork", "--mount-proc", "--kill-child"];

/** The first block of a page in a language. */
const blockOf = (page: Parameters<typeof readPage>[0], language: string) =>
  new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "ms").exec(readPage(page).text)?.[1] ?? "";

test.skipIf(nginx === undefined || lacks("network namespaces"))(
  "the recipe for one machine works as the page has it: unit, nginx, accounts, login",
  async () => {
    const machine = await createMachine();
    const inFolder = (name: string, text: string) => writeFileSync(join(machine.folder, name), text);
    const { cert, key } = createCertificate("video.example");
    inFolder("video.example.pem", cert);
    inFolder("video.example.key", key);
    inFolder("hosts", "127.0.0.1 localhost video.example\n");
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `${name}_temp_path ${machine.folder}/${name};`,
    );
    const http = ["access_log off;", ...temporary, blockOf("accounts", "nginx")].join("\n");
    inFolder("nginx.conf", `user root; pid nginx.pid; error_log stderr; events {}\nhttp {\n${http}}\n`);
    const unit = blockOf("accounts", "ini").replace(/\\\n +/g, "");
    const [, line = ""] = /^ExecStart=\/usr\/bin\/node \/usr\/bin\/vidgen (.*)$/m.exec(unit) ?? [];
    const statusOf = (host: string) =>
      `${process.execPath} -e 'require("https").get("https://video.example/openapi.json", { servername: "video.example", headers: { Host: "${host}" } }, (r) => { console.log(r.statusCode); r.destroy(); })'`;
    const lines = `
      ip link set lo up
      mount --bind hosts /etc/hosts
      mount -t tmpfs tmpfs /etc/ssl && cp video.example.* /etc/ssl/
      vidgen="${process.execPath} ${bin}"
      export NODE_EXTRA_CA_CERTS=/etc/ssl/video.example.pem
      ${nginx} -p . -c nginx.conf -g 'daemon off; master_process off;' & proxy=$!
      $vidgen ${line} > address 2> log & server=$!
      until grep -q https address; do sleep 0.1; done
      ${statusOf("video.example")}; ${statusOf("video.example:443")}; ${statusOf("evil.example")}
      $vidgen accounts create ana --local 2> created > key
      export VIDGEN_HOME=$PWD/ana
      $vidgen login --base-url https://video.example --with-token < key
      $vidgen generate "a fox" -d 0.5 -o fox.mp4
      kill $server; kill -9 $proxy; wait $server`;
    const { stdout, stderr } = await machine.runProgram("unshare", ...apart, "sh", "-c", lines).ended;
    expect([stdout, stderr]).toEqual([expect.stringMatching(/^200\n200\n403\n(.*\n)*fox\.mp4\n$/), expect.anything()]);
    const created = readFileSync(join(machine.folder, "created"), "utf8");
    expect(created).toContain("vidgen login --base-url https://video.example\n");
    expect(readFileSync(join(machine.folder, "log"), "utf8")).toContain("until it is deleted");
  },
);
