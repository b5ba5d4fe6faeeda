/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/credentials.h"

#include "base/digest.h"
#include "base/encode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "root-credentials"

void credentials_generate(struct root_credentials *ret)
{
    unsigned char bytes[30];

    random_bytes(bytes, 10);
    memcpy(ret->access_key, "AKIA", 4);
    hex_encode(ret->access_key + 4, bytes, 8);
    ret->access_key[20] = 0;
    for (char *c = ret->access_key; *c; c++)
        if (*c >= 'a' && *c <= 'z')
            *c -= 32;
    random_bytes(bytes, sizeof bytes);
    ret->secret_key[base64url_encode(ret->secret_key, bytes, sizeof bytes)] = 0;
    ret->created = true;
}

static enum rc read_file(const char *path, struct root_credentials *ret)
{
    FILE *f = fopen(path, "re");
    struct stat st;
    int n;

    if (!f)
        return errno == ENOENT
                   ? RC_NOT_FOUND
                   : fail_rc(RC_UNAVAILABLE, "cannot read %s: %s", path, strerror(errno));
    if (fstat(fileno(f), &st) == 0 && (st.st_mode & 077)) {
        fclose(f);
        return fail_rc(RC_INVALID, "%s can be read by others: chmod 600 it, or better, replace it",
                       path);
    }
    n = fscanf(f, "access_key = %63s secret_key = %127s", ret->access_key, ret->secret_key);
    fclose(f);
    ret->created = false;
    return n == 2 ? RC_OK : fail_rc(RC_INVALID, "%s is not a credentials file", path);
}

static enum rc write_file(const char *dir, const char *path, const struct root_credentials *c)
{
    char temp[4200];
    int fd, dir_fd, n;
    bool ok;

    snprintf(temp, sizeof temp, "%s.new", path);
    fd = open(temp, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    n = fd < 0 ? -1
               : dprintf(fd, "access_key = %s\nsecret_key = %s\n", c->access_key, c->secret_key);
    ok = n > 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    ok = ok && rename(temp, path) == 0;
    dir_fd = ok ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    ok = dir_fd >= 0 && fsync(dir_fd) == 0;
    if (dir_fd >= 0)
        close(dir_fd);
    return ok ? RC_OK : fail_rc(RC_UNAVAILABLE, "cannot write %s: %s", path, strerror(errno));
}

enum rc credentials_root(const char *data_dir, struct root_credentials *ret)
{
    char path[4096];
    enum rc rc;

    if ((size_t)snprintf(path, sizeof path, "%s/" FILE_NAME, data_dir) >= sizeof path)
        return fail_rc(RC_INVALID, "the path of the data directory is too long");
    rc = read_file(path, ret);
    if (rc != RC_NOT_FOUND)
        return rc;
    credentials_generate(ret);
    return write_file(data_dir, path, ret);
}
