type Picture = HTMLImageElement | HTMLVideoElement;

const pictures = ".stage > :is(img, video):not([data-added])";
/** In pixels. The style sheet enlarges and blurs the backdrop. */
const backdropWidth = 32;

/** Fills the frame around a picture of another shape, such as a portrait video on a card, with a blurred copy of the picture. */
export function listenForPictures(): void {
  const onLoad = ({ target }: Event) => {
    if (target instanceof Element && target.matches(pictures)) drawBackdrop(target as Picture);
  };
  // These events do not bubble.
  document.addEventListener("load", onLoad, true);
  document.addEventListener("loadeddata", onLoad, true);
  for (const picture of document.querySelectorAll<Picture>(pictures)) drawBackdrop(picture);
}

function drawBackdrop(picture: Picture): void {
  const stage = picture.parentElement;
  const [width, height] =
    picture instanceof HTMLImageElement
      ? [picture.naturalWidth, picture.naturalHeight]
      : [picture.videoWidth, picture.videoHeight];
  // Not loaded yet, or unreadable.
  if (!stage || width === 0) return;
  const coveredHeight = (stage.clientWidth / width) * height;
  if (Math.abs(coveredHeight - stage.clientHeight) < 2) return;
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { className: "backdrop", width: backdropWidth, height: (backdropWidth / width) * height });
  canvas.dataset.added = "";
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  stage.querySelector(".backdrop")?.remove();
  stage.prepend(canvas);
}
