// Looks at the console in Firefox: node firefox.mjs FIREFOX ADDRESS TOKEN EVENT
// It looks at every page on a phone in the dark, on a desk in the light, and at both widths without
// script, and mends the dead letter of the event by keys alone. Playwright wants a Firefox of its own;
// puppeteer drives Debian's.
import puppeteer from 'puppeteer-core'
import { look, pages, watch } from './looking.mjs'
import { mending } from './mending.mjs'

const [executablePath, address, token, event] = process.argv.slice(2)
const failures = []
const base = address + '/console/'
const desk = { width: 1280, height: 900 }, phone = { width: 320, height: 900 }

// firefox calls with a page of a browser that nobody has logged in with yet, and ends the browser.
async function firefox(what, theme, script, use) {
  const browser = await puppeteer.launch({
    browser: 'firefox', executablePath, extraPrefsFirefox: {
      'javascript.enabled': script,
      'layout.css.prefers-color-scheme.content-override': theme === 'dark' ? 0 : 1,
      'layout.frame_rate': 2, // nobody watches, and painting took half of the work
    },
  })
  try {
    const page = await browser.newPage()
    watch(page, failures, [address])
    await use(page)
  } catch (e) {
    failures.push(`${what}: ${e}`)
  } finally {
    await browser.close()
  }
}

async function login(page) {
  await page.goto(base + 'dead')
  await page.type('#token', token)
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
}

const looks = [
  { theme: 'dark', script: true, widths: [phone] },
  { theme: 'light', script: true, widths: [desk] },
  { theme: 'light', script: false, widths: [phone, desk] },
].map(({ theme, script, widths }) => firefox(`pages, ${theme}, script ${script ? 'on' : 'off'}`, theme, script, async (page) => {
  await login(page)
  for (const at of ['login', ...pages]) {
    await page.goto(base + at)
    for (const viewport of widths) {
      await page.setViewport(viewport)
      await look(page, `${at || 'overview'} in Firefox at ${viewport.width} px, ${theme}, script ${script ? 'on' : 'off'}`, failures, script)
    }
  }
}))
const mended = firefox('from an id to the event by keys', 'light', true, async (page) => {
  await page.setViewport(desk)
  await mending(page, { base, token, event, failures })
})
await Promise.all([...looks, mended])
console.log(JSON.stringify({ failures: failures.length ? [[...new Set(failures)].join('\n')] : [] }))
process.exit(0)
