import { readdirSync, readFileSync } from "node:fs";

/** The licences of the packages that these files come from, and further ones, for THIRD_PARTY_NOTICES.txt. */
export function findNotices(files, others) {
  const found = files.map((file) => /.*node_modules\/((@[^/]+\/)?[^/]+)/.exec(file)?.[0]);
  const folders = [...new Set(found.filter((folder) => folder !== undefined))].sort();
  const notices = [...folders.map(noticeOf), ...others.map((file) => readFileSync(file, "utf8"))];
  return `vidgen holds parts of these packages.\n\n${notices.join(`\n${"-".repeat(80)}\n\n`)}`;
}

function noticeOf(folder) {
  const { name, version, license, repository, author } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  if (typeof license !== "string") throw new Error(`${name} names no licence`);
  const texts = readdirSync(folder).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file));
  const source = String(repository?.url ?? repository ?? "").replace(/^git\+/, "");
  const lines = [
    `${name} ${version}`,
    `Licence: ${license}`,
    ...(source === "" ? [] : [`Source: ${source}`]),
    ...(texts.length === 0 && author ? [`Copyright: ${author.name ?? author}`] : []),
  ];
  return `${lines.join("\n")}\n\n${texts.map((file) => readFileSync(`${folder}/${file}`, "utf8").trim()).join("\n\n")}\n`;
}
