/* Users: who called, and names to numbers. */
#include "discover/discover.h"
#include "base/parse.h"

#include <errno.h>
#include <pwd.h>

#define PASSWD_BYTES_MAX (1u << 20)

/* Looks a user up by name, or by number when name is NULL. 0, -ENOENT or negative errno. */
static int lookup(const char *name, uint32_t uid, uint32_t *ret_uid, uint32_t *ret_gid, char *ret_name,
	size_t name_size)
{
	for (size_t size = 4096; size <= PASSWD_BYTES_MAX; size *= 4) {
		cleanup_free char *buf = malloc(size);
		struct passwd pw, *hit = NULL;
		int err;

		if (!buf)
			return -ENOMEM;
		err = name ? getpwnam_r(name, &pw, buf, size, &hit) : getpwuid_r(uid, &pw, buf, size, &hit);
		if (err == ERANGE)
			continue;
		if (!hit)
			return -ENOENT;
		*ret_uid = pw.pw_uid;
		*ret_gid = pw.pw_gid;
		if (ret_name)
			snprintf(ret_name, name_size, "%s", pw.pw_name);
		return 0;
	}
	return -ERANGE;
}

/* (uid_t)-1 means "no change" to the kernel and is nobody. */
static int parse_id(const char *text, uint32_t *ret_id)
{
	uint64_t value;

	if (!text || parse_u64(text, &value) || value >= UINT32_MAX)
		return -EINVAL;
	*ret_id = (uint32_t)value;
	return 0;
}

int discover_invoking_user(uint32_t *ret_uid, uint32_t *ret_gid, char *name, size_t name_size)
{
	/* only a root that was not made by a set-uid file may believe its environment */
	bool is_root = getuid() == 0 && geteuid() == 0;
	const char *sudo_user = is_root ? getenv("SUDO_USER") : NULL;
	uint32_t uid = getuid(), gid = getgid(), found_uid, found_gid;
	bool by_number = is_root && !parse_id(getenv("SUDO_UID"), &uid);

	if (!by_number && sudo_user && *sudo_user)
		return lookup(sudo_user, 0, ret_uid, ret_gid, name, name_size);
	if (!lookup(NULL, uid, &found_uid, &found_gid, name, name_size))
		gid = by_number ? found_gid : gid;
	else
		snprintf(name, name_size, "%u", uid);
	if (by_number)
		parse_id(getenv("SUDO_GID"), &gid);
	*ret_uid = uid;
	*ret_gid = gid;
	return 0;
}

int discover_user_by_name(const char *name, uint32_t *ret_uid)
{
	uint32_t uid, gid;
	int err = lookup(name, 0, &uid, &gid, NULL, 0);

	if (!err)
		*ret_uid = uid;
	else if (!parse_id(name, ret_uid))
		err = 0;
	return err;
}
