// Drives WebKit by WebDriver, as Debian's package has it: no library for browsers does. A page has
// what looking.mjs and mending.mjs ask of one.
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const nap = () => new Promise((done) => setTimeout(done, 50)) // between two looks at another process
const patience = 60_000

const free = () => new Promise((done) => {
  const s = createServer().listen(0, '127.0.0.1', () => {
    const { port } = s.address()
    s.close(() => done(port))
  })
})

// screen is an X server for browsers, and a folder with their settings: the bar of MiniBrowser is as wide
// as its buttons, and no window is narrower.
export async function screen() {
  const config = mkdtempSync(join(tmpdir(), 'webkit-'))
  mkdirSync(join(config, 'gtk-3.0'))
  writeFileSync(join(config, 'gtk-3.0', 'gtk.css'), 'window toolbar, window toolbar *, window headerbar, window entry, window button, window image { min-width: 0; padding: 0; margin: 0; border-width: 0; font-size: 1px; }')
  const x = spawn('Xvfb', ['-displayfd', '3', '-screen', '0', '1400x1000x24', '-nolisten', 'tcp'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe'] })
  const number = await new Promise((done, fail) => {
    x.stdio[3].once('data', (text) => done(String(text).trim()))
    x.once('error', fail)
    x.once('exit', () => fail(new Error('Xvfb does not start')))
  })
  return {
    env: { ...process.env, DISPLAY: ':' + number, XDG_CONFIG_HOME: config, GTK_THEME: 'Adwaita' },
    end() {
      x.kill()
      rmSync(config, { recursive: true, force: true })
    },
  }
}

// webkit calls with a page of a browser that nobody has logged in with yet, and ends the browser. Without script it
// leaves out all of a page's own; what evaluate is given runs there too.
export async function webkit({ browser, on, dark, script = true, use }) {
  const port = await free()
  const driver = spawn('WebKitWebDriver', ['--port=' + port], { env: on.env, stdio: 'ignore' })
  const ask = async (method, path, body) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, body: body && JSON.stringify(body) })
    const { value } = await answer.json()
    if (!answer.ok) throw new Error(`${method} ${path}: ${value.error}: ${value.message}`)
    return value
  }
  try {
    for (const end = Date.now() + patience; !await ask('GET', '/status').catch(() => Date.now() > end); await nap());
    const { sessionId } = await ask('POST', '/session', { capabilities: { alwaysMatch: { 'webkitgtk:browserOptions': { binary: browser, args: ['--automation', ...dark ? ['--dark-mode'] : [], ...script ? [] : ['--enable-javascript-markup=false']] } } } })
    try {
      return await use(pageOf((method, path, body) => ask(method, `/session/${sessionId}${path}`, body)))
    } finally {
      await ask('DELETE', `/session/${sessionId}`)
    }
  } finally {
    driver.kill()
  }
}

// Keys that are no characters.
const keys = { Tab: '\uE004', Enter: '\uE007', Escape: '\uE00C', Control: '\uE009' }

function pageOf(ask) {
  let last = Promise.resolve(), at = ''
  // One command after the other, in the order in which they were asked for.
  const command = (...args) => last = last.catch(() => {}).then(() => ask(...args))
  const until = async (what, is) => {
    for (const end = Date.now() + patience; ; await nap()) {
      if (await is().catch(() => false)) return // the page may be on its way
      if (Date.now() > end) throw new Error(`${at}: not within a minute: ${what}`)
    }
  }
  const act = (...actions) => command('POST', '/actions', { actions: [{ type: 'key', id: 'keys', actions }] })
  const down = (key) => ({ type: 'keyDown', value: keys[key] || key }), up = (key) => ({ type: 'keyUp', value: keys[key] || key })
  const page = {
    url: () => at,
    async goto(address) {
      at = address
      await command('POST', '/url', { url: address })
    },
    async evaluate(what, arg) {
      const script = typeof what === 'string' ? what : `const done = arguments[1]
        Promise.resolve().then(() => (${what})(arguments[0])).then((value) => done({ value }), (e) => done({ wrong: String(e) }))`
      const value = await command('POST', typeof what === 'string' ? '/execute/sync' : '/execute/async', { script, args: [arg ?? null] })
      if (value?.wrong) throw new Error(value.wrong)
      return value?.value
    },
    async waitForSelector(selector) {
      await until(selector, () => page.evaluate((s) => document.querySelector(s) !== null, selector))
    },
    async waitForNavigation() {
      await page.evaluate(() => { window.left = false })
      await until('another page', () => page.evaluate(() => window.left === undefined && document.readyState === 'complete'))
      at = await command('GET', '/url')
    },
    async click(selector) {
      const found = await command('POST', '/element', { using: 'css selector', value: selector })
      await command('POST', `/element/${Object.values(found)[0]}/click`, {})
    },
    async setViewport({ width, height }) {
      await command('POST', '/window/rect', { width, height })
      const is = await page.evaluate(() => innerWidth)
      if (is !== width) throw new Error(`the window is ${is} px wide, and was to be ${width}`)
    },
    keyboard: {
      press: (key) => act(down(key), up(key)),
      down: (key) => act(down(key)),
      up: (key) => act(up(key)),
      type: (text) => act(...[...text].flatMap((c) => [down(c), up(c)])),
    },
  }
  return page
}
