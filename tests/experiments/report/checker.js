// What a reader would stumble over, as lines in <pre id="findings">; run inside a page of the report.
"use strict";
const findings = [];
window.addEventListener("error", (event) => findings.push(`script error: ${event.message}`));

function overlap(a, b) {
  const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  return wide > 0.5 && high > 0.5;
}

function checkDrawings() {
  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")];
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((box, i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)
        findings.push(`text outside its drawing: ${texts[i].textContent}`);
      if (box.height < 9) findings.push(`text too small: ${texts[i].textContent} (${box.height})`);
      for (let j = 0; j < i; j++)
        if (overlap(box, boxes[j]))
          findings.push(`texts overlap: ${texts[j].textContent} | ${texts[i].textContent}`);
    });
  }
}

function checkWidth() {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width)
    findings.push(`the page is ${document.documentElement.scrollWidth} wide in ${width}`);
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest(".scroll") && !element.matches(".scroll")) continue;
    if (element.closest("svg") && !element.matches("svg")) continue;
    const box = element.getBoundingClientRect();
    if (box.right > width + 1) findings.push(`beyond the edge: ${element.outerHTML.slice(0, 80)}`);
  }
}

function checkImages() {
  for (const image of document.images)
    if (!image.complete || !image.naturalWidth) findings.push(`image missing: ${image.src}`);
}

function channels(colour) {
  const numbers = colour.match(/[\d.]+/g).map(Number);
  return { rgb: numbers.slice(0, 3), opaque: numbers.length < 4 || numbers[3] > 0 };
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function background(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor);
    if (colour.opaque) return colour.rgb;
  }
  return [255, 255, 255];
}

function checkContrast() {
  for (const element of document.querySelectorAll("body *")) {
    const says = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!says || element.closest("title, desc, style, script, #findings")) continue;
    const style = getComputedStyle(element);
    const colour = channels(element.closest("svg") ? style.fill : style.color).rgb;
    const [light, dark] = [luminance(colour), luminance(background(element))].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5)
      findings.push(`contrast ${contrast.toFixed(1)}: ${element.textContent.trim().slice(0, 40)}`);
  }
}

window.addEventListener("load", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const check of [checkDrawings, checkWidth, checkImages, checkContrast]) check();
  const place = parent.document.createElement("pre");
  place.id = "findings";
  place.textContent = JSON.stringify({
    width: document.documentElement.clientWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    findings: [...new Set(findings)],
  });
  parent.document.body.append(place);
});
