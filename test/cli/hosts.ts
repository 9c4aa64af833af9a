import type { Machine } from "./machine.ts";

/**
 * Moves two machines into network namespaces of their own, joined by a cable: 10.9.0.1 and 10.9.0.2. They have one mount namespace, in which the lines
 * `setup` of a shell run first, in the folder of the first machine.
 */
export async function joinHosts(one: Machine, two: Machine, setup: string): Promise<void> {
  const loop = "ip link set lo up";
  const stay = "echo ready; exec sleep infinity";
  const first = one.runProgram("unshare", "-rnm", "sh", "-ec", `${loop}; ${setup}\n${stay}`);
  await first.said("ready");
  const enter = (user = first.child.pid, net = user) => [
    ...["nsenter", "--preserve-credentials", `--user=/proc/${user}/ns/user`, `--mount=/proc/${user}/ns/mnt`],
    `--net=/proc/${net}/ns/net`,
  ];
  // The working folder as the other mount namespace has it.
  const inFolder = ({ folder }: Machine) => ["sh", "-c", 'cd "$0" && exec "$@"', folder];
  one.within = [...enter(), ...inFolder(one)];
  const second = one.runProgram("unshare", "-n", "sh", "-ec", `${loop}; ${stay}`);
  await second.said("ready");
  two.within = [...enter(first.child.pid, second.child.pid), ...inFolder(two)];
  const up = (link: string, address: string) => `ip link set ${link} up; ip address add ${address}/24 dev ${link}`;
  const near = `ip link add near type veth peer name far netns ${second.child.pid}; ${up("near", "10.9.0.1")}`;
  for (const [machine, lines] of [[one, near] as const, [two, up("far", "10.9.0.2")] as const]) {
    const { code, stderr } = await machine.runProgram("sh", "-ec", lines).ended;
    if (code !== 0) throw new Error(stderr);
  }
}
