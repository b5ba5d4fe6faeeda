/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char days[] = "SunMonTueWedThuFriSat";

static int64_t read_clock(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t clock_mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

struct civil {
    int year, month, day, hour, minute, second, weekday; /* month 1..12, weekday 0 = Sunday */
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* Days since 1970-01-01 of a date in the proleptic Gregorian calendar. */
static int64_t days_of(int64_t y, int m, int d)
{
    int64_t era;
    unsigned yoe, doy, doe;

    y -= m <= 2;
    era = floor_div(y, 400);
    yoe = (unsigned)(y - era * 400);
    doy = (153 * (unsigned)(m + (m > 2 ? -3 : 9)) + 2) / 5 + (unsigned)d - 1;
    doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + (int64_t)doe - 719468;
}

static struct civil civil_of(int64_t wall_ns)
{
    int64_t s = floor_div(wall_ns, NS_PER_S), z = floor_div(s, 86400), era;
    unsigned sod = (unsigned)(s - z * 86400), doe, yoe, doy, mp;
    struct civil c;

    c.weekday = (int)(((z + 4) % 7 + 7) % 7);
    z += 719468;
    era = floor_div(z, 146097);
    doe = (unsigned)(z - era * 146097);
    yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    mp = (5 * doy + 2) / 153;
    c.day = (int)(doy - (153 * mp + 2) / 5 + 1);
    c.month = (int)(mp < 10 ? mp + 3 : mp - 9);
    c.year = (int)((int64_t)yoe + era * 400 + (c.month <= 2));
    c.hour = (int)(sod / 3600);
    c.minute = (int)(sod / 60 % 60);
    c.second = (int)(sod % 60);
    return c;
}

static char *digits(char *p, int v, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        p[i] = (char)('0' + v % 10);
        v /= 10;
    }
    return p + width;
}

void clock_format_iso(char out[CLOCK_ISO_SIZE], int64_t wall_ns)
{
    struct civil c = civil_of(wall_ns);
    int64_t ms = floor_div(wall_ns, NS_PER_MS);
    char *p = digits(out, c.year, 4);

    *p++ = '-';
    p = digits(p, c.month, 2);
    *p++ = '-';
    p = digits(p, c.day, 2);
    *p++ = 'T';
    p = digits(p, c.hour, 2);
    *p++ = ':';
    p = digits(p, c.minute, 2);
    *p++ = ':';
    p = digits(p, c.second, 2);
    *p++ = '.';
    p = digits(p, (int)(ms - floor_div(ms, 1000) * 1000), 3);
    *p = 'Z';
}

void clock_format_http(char out[CLOCK_HTTP_SIZE], int64_t wall_ns)
{
    struct civil c = civil_of(wall_ns);
    char *p = out;

    memcpy(p, days + 3 * c.weekday, 3);
    memcpy(p + 3, ", ", 2);
    p = digits(p + 5, c.day, 2);
    *p++ = ' ';
    memcpy(p, months + 3 * (c.month - 1), 3);
    p[3] = ' ';
    p = digits(p + 4, c.year, 4);
    *p++ = ' ';
    p = digits(p, c.hour, 2);
    *p++ = ':';
    p = digits(p, c.minute, 2);
    *p++ = ':';
    p = digits(p, c.second, 2);
    memcpy(p, " GMT", 4);
}

void clock_format_amz(char out[CLOCK_AMZ_SIZE], int64_t wall_ns)
{
    struct civil c = civil_of(wall_ns);
    char *p = digits(out, c.year, 4);

    p = digits(p, c.month, 2);
    p = digits(p, c.day, 2);
    *p++ = 'T';
    p = digits(p, c.hour, 2);
    p = digits(p, c.minute, 2);
    p = digits(p, c.second, 2);
    *p = 'Z';
}

static bool to_ns(const struct civil *c, int64_t *ret_ns)
{
    if (c->month < 1 || c->month > 12 || c->day < 1 || c->day > 31 || c->hour > 23 ||
        c->minute > 59 || c->second > 60 || c->year < 1 || c->year > 9999)
        return false;
    /* Beyond the years that 64 bits of nanoseconds hold (1678 to 2262). */
    if (c->year < 1678 || c->year > 2261)
        return false;
    *ret_ns =
        (days_of(c->year, c->month, c->day) * 86400 + c->hour * 3600 + c->minute * 60 + c->second) *
        NS_PER_S;
    return true;
}

static int month_of(const char *name)
{
    for (int i = 0; i < 12; i++)
        if (!memcmp(months + 3 * i, name, 3))
            return i + 1;
    return 0;
}

bool clock_parse_http(struct slice s, int64_t *ret_ns)
{
    struct civil c = { 0 };
    char z[64], mon[4], rest[2];
    bool ok;

    if (s.n >= sizeof z || s.n == 0)
        return false;
    memcpy(z, s.p, s.n);
    z[s.n] = 0;
    if (sscanf(z, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GM%1[T]", &c.day, mon, &c.year,
               &c.hour, &c.minute, &c.second, rest) == 7) {
        ok = true;
    } else if (sscanf(z, "%*[A-Za-z], %2d-%3[A-Za-z]-%2d %2d:%2d:%2d GM%1[T]", &c.day, mon, &c.year,
                      &c.hour, &c.minute, &c.second, rest) == 7) {
        c.year += c.year < 70 ? 2000 : 1900;
        ok = true;
    } else {
        ok = sscanf(z, "%*3[A-Za-z] %3[A-Za-z] %2d %2d:%2d:%2d %4d", mon, &c.day, &c.hour,
                    &c.minute, &c.second, &c.year) == 6;
    }
    if (!ok || strlen(mon) != 3)
        return false;
    c.month = month_of(mon);
    return to_ns(&c, ret_ns);
}

static bool number(struct slice *s, size_t width, int *ret)
{
    uint64_t v;

    if (s->n < width || !slice_to_u64(slice_first(*s, width), &v))
        return false;
    *ret = (int)v;
    *s = slice_from(*s, width);
    return true;
}

static void skip(struct slice *s, char c)
{
    if (s->n && s->p[0] == c)
        *s = slice_from(*s, 1);
}

bool clock_parse_iso(struct slice s, int64_t *ret_ns)
{
    struct civil c = { 0 };
    int64_t fraction = 0, unit = NS_PER_S / 10, ns;

    if (!number(&s, 4, &c.year))
        return false;
    skip(&s, '-');
    if (!number(&s, 2, &c.month))
        return false;
    skip(&s, '-');
    if (!number(&s, 2, &c.day))
        return false;
    if (s.n && s.p[0] == 'T') {
        skip(&s, 'T');
        if (!number(&s, 2, &c.hour))
            return false;
        skip(&s, ':');
        if (!number(&s, 2, &c.minute))
            return false;
        skip(&s, ':');
        if (!number(&s, 2, &c.second))
            return false;
        if (s.n && s.p[0] == '.') {
            skip(&s, '.');
            for (; s.n && s.p[0] >= '0' && s.p[0] <= '9'; s = slice_from(s, 1), unit /= 10)
                fraction += (s.p[0] - '0') * unit;
        }
        if (!slice_eq(s, SLICE("Z")))
            return false;
    } else if (s.n) {
        return false;
    }
    if (!to_ns(&c, &ns))
        return false;
    *ret_ns = ns + fraction;
    return true;
}
