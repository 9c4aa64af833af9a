/** Further apart than this, in seconds, a video is set to where the first one is. */
const maxApart = 0.05;

/** One button and one slider for all videos of a comparison. */
export function listenForCompare(): void {
  const play = document.querySelector<HTMLButtonElement>("#play");
  const slider = document.querySelector<HTMLInputElement>("#position");
  if (!play || !slider) return;
  const time = document.querySelector("#time");
  const videos = () => [...document.querySelectorAll<HTMLVideoElement>(".compared video")];
  const lengthOf = ({ duration }: HTMLVideoElement) => (Number.isFinite(duration) ? duration : 0);
  /** The longest one leads: the others stand at their ends until it begins again. */
  const leaderOf = (all: readonly HTMLVideoElement[]) => all.toSorted((a, b) => lengthOf(b) - lengthOf(a))[0];
  let isPlaying = false;

  const show = () => {
    const leader = leaderOf(videos());
    if (!leader) return;
    slider.max = String(lengthOf(leader));
    if (document.activeElement !== slider || isPlaying) slider.value = String(leader.currentTime);
    if (time) time.textContent = `${leader.currentTime.toFixed(1)} of ${lengthOf(leader).toFixed(1)} s`;
  };
  const keepInStep = () => {
    if (!isPlaying) return;
    const all = videos();
    const leader = leaderOf(all);
    if (leader?.ended) seek(0);
    for (const video of all) {
      const at = Math.min(leader?.currentTime ?? 0, lengthOf(video));
      if (Math.abs(video.currentTime - at) > maxApart) video.currentTime = at;
      if (video.paused && at < lengthOf(video)) video.play().catch(() => {});
    }
    show();
    requestAnimationFrame(keepInStep);
  };
  const seek = (at: number) => {
    for (const video of videos()) video.currentTime = Math.min(at, lengthOf(video));
  };
  const setPlaying = (isNow: boolean) => {
    isPlaying = isNow;
    play.textContent = isNow ? "Pause" : "Play";
    if (!isNow) for (const video of videos()) video.pause();
    if (isNow) keepInStep();
    else seek(leaderOf(videos())?.currentTime ?? 0);
  };

  play.addEventListener("click", () => setPlaying(!isPlaying));
  slider.addEventListener("input", () => {
    seek(Number(slider.value));
    show();
  });
  document.addEventListener("loadedmetadata", show, true);
  show();
}
