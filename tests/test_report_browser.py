"""The pages as a person meets them: opened in Chromium without a network, turned, slid, on a phone and at night."""

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import N_EPOCHS, STUDENTS_EACH, fit_folder, recover_folder

from wstar.report.page import write_report

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DOTS = "() => { const t = sphere.data.find(t => t.name === 'students'); return [t.x, t.y, t.z]; }"
RINGS = "() => { const t = sphere.data.find(t => t.name === 'teachers'); return [t.x, t.y, t.z]; }"
EYE = "() => { const e = sphere._fullLayout.scene.camera.eye; return [e.x, e.y, e.z]; }"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    return {
        "recover": write_report(recover_folder(root / "recover")),
        "fit": write_report(fit_folder(root / "fit", columns=("rooms", "a very long name of a column, and more", "x"))),
    }


@pytest.fixture(scope="module")
def playwright() -> Iterator[Any]:
    with sync_api.sync_playwright() as running:
        yield running


@pytest.fixture(scope="module")
def browser(playwright: Any) -> Iterator[Any]:
    running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
    yield running
    running.close()


def opened(browser: Any, path: Path, **look: Any) -> Any:
    """A page that is drawn, with what went wrong in ``page.troubles`` and what it asked for in ``.requests``."""
    page = browser.new_page(**look)
    # a page of 5 MB on a busy machine: that it draws is the claim, not how fast
    page.set_default_timeout(180_000)
    page.troubles, page.requests = [], []
    page.on("console", lambda message: page.troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn=yes]", timeout=180_000)
    return page


@pytest.fixture(scope="module")
def recover_page(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    page = opened(browser, pages["recover"], viewport={"width": 1280, "height": 900})
    yield page
    assert page.troubles == []
    page.close()


def places(page: Any, script: str) -> np.ndarray:
    return np.array(page.evaluate(script), dtype=float).T


def slide_to(page: Any, epoch: int) -> None:
    page.fill("#epoch-slider", str(epoch))


def check_opened_clean(page: Any, path: Path, width: int) -> None:
    assert page.troubles == []
    assert [url for url in page.requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]
    drawn = page.evaluate("() => [...document.querySelectorAll('.plot')].map(p => [p.id, Boolean(p._fullLayout)])")
    assert len(drawn) > 4
    assert all(done for _, done in drawn), drawn
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.locator("figcaption, .caption").count() >= 4


def test_a_page_opens_clean(recover_page: Any, pages: dict[str, Path]) -> None:
    check_opened_clean(recover_page, pages["recover"], 1280)


@pytest.mark.parametrize(("kind", "scheme"), [("recover", "light"), ("fit", "dark")])
def test_a_page_opens_clean_on_a_phone(browser: Any, pages: dict[str, Path], kind: str, scheme: str) -> None:
    page = opened(browser, pages[kind], viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True)
    check_opened_clean(page, pages[kind], 390)
    page.close()


def test_the_slider_moves_the_dots_to_where_the_students_were(recover_page: Any) -> None:
    own = np.repeat(places(recover_page, RINGS)[:4], STUDENTS_EACH, axis=0)
    for epoch in (0, 2, N_EPOCHS):
        slide_to(recover_page, epoch)
        cosines = np.abs((places(recover_page, DOTS) * own).sum(axis=1))
        np.testing.assert_allclose(cosines, np.cos(0.4 * 0.5**epoch), atol=2e-5)
        said = recover_page.inner_text("#epoch-label strong")
        assert said == (f"Epoch {epoch} of {N_EPOCHS}" if epoch else "Start")


def test_the_slider_obeys_the_keyboard(recover_page: Any) -> None:
    slide_to(recover_page, 3)
    before = places(recover_page, DOTS)
    recover_page.focus("#epoch-slider")
    recover_page.keyboard.press("ArrowLeft")
    assert recover_page.input_value("#epoch-slider") == "2"
    assert recover_page.get_attribute("#epoch-slider", "aria-valuetext") == f"Epoch 2 of {N_EPOCHS}"
    assert np.abs(places(recover_page, DOTS) - before).max() > 0.01


def test_playing_goes_through_the_epochs_and_can_be_stopped(recover_page: Any) -> None:
    slide_to(recover_page, N_EPOCHS)
    recover_page.click("#epoch-play")
    recover_page.wait_for_function("() => Number(document.getElementById('epoch-slider').value) === 2", timeout=120_000)
    recover_page.click("#epoch-play")
    stopped = places(recover_page, DOTS)
    recover_page.wait_for_timeout(1200)
    np.testing.assert_array_equal(places(recover_page, DOTS), stopped)
    assert recover_page.inner_text("#epoch-play").strip() == "Play"


def test_the_sphere_turns_by_hand_and_by_key(recover_page: Any) -> None:
    eye = np.array(recover_page.evaluate(EYE))
    recover_page.locator("#sphere").scroll_into_view_if_needed()
    box = recover_page.locator("#sphere").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    recover_page.mouse.move(x, y)
    recover_page.mouse.down()
    recover_page.mouse.move(x + 120, y + 20, steps=6)
    recover_page.mouse.up()
    recover_page.wait_for_function(f"before => Math.abs(({EYE})()[0] - before) > 0.05", arg=eye[0], timeout=60_000)
    turned = np.array(recover_page.evaluate(EYE))
    recover_page.focus("#sphere")
    recover_page.keyboard.press("ArrowRight")
    keyed = np.array(recover_page.evaluate(EYE))
    assert np.linalg.norm(keyed - turned) > 0.02
    assert np.linalg.norm(keyed) == pytest.approx(np.linalg.norm(turned), rel=1e-9)


def test_labels_stand_beside_their_rings_however_the_sphere_is_turned(recover_page: Any) -> None:
    recover_page.focus("#sphere")
    for key in ("ArrowUp", "ArrowRight", "ArrowRight"):
        recover_page.keyboard.press(key)
        rings, eye = places(recover_page, RINGS), np.array(recover_page.evaluate(EYE))
        offsets = places(recover_page, RINGS.replace("teachers", "labels")) - rings
        np.testing.assert_allclose(np.linalg.norm(offsets, axis=1), 0.17, rtol=1e-6)
        np.testing.assert_allclose(offsets @ eye, 0.0, atol=1e-6)


def test_sliding_does_not_turn_the_sphere_back(recover_page: Any) -> None:
    recover_page.focus("#sphere")
    recover_page.keyboard.press("ArrowLeft")
    eye = recover_page.evaluate(EYE)
    slide_to(recover_page, 1)
    slide_to(recover_page, 4)
    assert recover_page.evaluate(EYE) == pytest.approx(eye)


def test_night_falls_while_the_page_is_open(recover_page: Any) -> None:
    look = (
        "() => ({ paper: getComputedStyle(document.body).backgroundColor, accent: loss.data[1].line.color,"
        " dots: new Set(sphere.data.find(t => t.name === 'students').marker.color).size })"
    )
    day = recover_page.evaluate(look)
    recover_page.emulate_media(color_scheme="dark")
    recover_page.wait_for_function("day => loss.data[1].line.color !== day", arg=day["accent"], timeout=60_000)
    night = recover_page.evaluate(look)
    recover_page.emulate_media(color_scheme="light")
    brightness = [sum(int(part) for part in shade["paper"][4:-1].split(",")) for shade in (day, night)]
    assert brightness[0] > 600
    assert brightness[1] < 150
    assert night["dots"] == day["dots"] == 2


def test_steps_can_be_read_on_a_linear_axis(recover_page: Any) -> None:
    kind = "() => [loss._fullLayout.xaxis.type, epochs._fullLayout.xaxis.type]"
    assert recover_page.evaluate(kind) == ["log", "linear"]
    recover_page.click("[data-scale=linear]")
    assert recover_page.evaluate(kind) == ["linear", "linear"]
    assert recover_page.get_attribute("[data-scale=linear]", "aria-pressed") == "true"
    recover_page.click("[data-scale=log]")
    assert recover_page.evaluate(kind) == ["log", "linear"]


def test_every_figure_gives_its_numbers_by_key(recover_page: Any) -> None:
    plots = recover_page.locator(".plot").count()
    assert recover_page.locator(".plot + a.numbers").count() == plots > 4
    recover_page.focus("#loss + a.numbers")
    with recover_page.expect_download() as wanted:
        recover_page.keyboard.press("Enter")
    assert wanted.value.suggested_filename == "loss.csv"
    with open(wanted.value.path(), encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["series"] == "L"]
    shown = recover_page.evaluate("() => loss.data[1].y")
    assert [float(row["y"]) for row in rows] == shown


def test_hostile_column_names_run_nothing(browser: Any, tmp_path: Path) -> None:
    names = ("</script><script>window.hit=1</script>", "<img src=x onerror='window.hit=1'>", "<b>bold</b>")
    page = opened(browser, write_report(fit_folder(tmp_path / "run", columns=names)))
    assert page.evaluate("() => window.hit") is None
    assert page.troubles == []
    # shown as they are written
    assert set(page.locator("#bars-1 tbody th").all_text_contents()) == set(names)
    page.close()


def test_without_webgl_the_rest_of_the_page_works(playwright: Any, pages: dict[str, Path]) -> None:
    running = playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, "--disable-3d-apis"])
    page = opened(running, pages["recover"])
    assert "no WebGL" in page.inner_text("#sphere")
    slide_to(page, 2)
    assert page.inner_text("#epoch-label strong") == f"Epoch 2 of {N_EPOCHS}"
    assert page.evaluate("() => Boolean(document.getElementById('loss')._fullLayout)")
    assert page.troubles == []
    running.close()
