// Opens pages in a real browser: node browser.mjs CHROMIUM PAGE...
// A page says in document.title that it is done. Logged errors and error answers are failures,
// unless the page's address says that its line is bad (?line=bad).
import { chromium } from 'playwright-core'

const [executablePath, ...pages] = process.argv.slice(2)
// PostHog's library sends nothing for a browser that says a program controls it.
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-blink-features=AutomationControlled'] })
const userAgent = `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${browser.version()} Safari/537.36`
const failures = []
for (const address of pages) {
  const bad = new URL(address).searchParams.get('line') === 'bad'
  const page = await (await browser.newContext({ userAgent })).newPage()
  page.on('pageerror', (e) => failures.push(`${address}: ${e}`))
  if (!bad) {
    page.on('console', (m) => m.type() === 'error' && failures.push(`${address}: ${m.text()} ${m.location().url}`))
    page.on('requestfailed', (r) => failures.push(`${address}: ${r.method()} ${r.url()} ${r.failure()?.errorText}`))
    page.on('response', (r) => r.status() >= 400 && failures.push(`${address}: ${r.url()} was answered ${r.status()}`))
  }
  await page.goto(address)
  await page.waitForFunction(() => document.title === 'done', null, { timeout: bad ? 120_000 : 30_000 }).catch((e) => failures.push(`${address}: ${e}`))
  await page.close({ runBeforeUnload: true })
}
await browser.close()
console.log(JSON.stringify({ failures }))
process.exit(failures.length ? 1 : 0)
