#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Has the commands of SPDK's scripts/rxe_cfg_small.sh, for tests that call this script and run on usrdma instead of rxe:
#
#   start, stop, add [INTERFACE], remove [DEVICE]    succeed: each interface has a device as long as it exists
#   status [PATTERN]                                 the Ethernet interfaces and their devices; the default
#   rxe-net                                          the Ethernet interfaces that have a device
#
# usrdma must be enabled with its files in /sys (usrdma enable --sysfs), or be started by usrdma run.
shopt -s nullglob

is_ethernet() {
	[[ $(cat "/sys/class/net/$1/type" 2>/dev/null) == 1 ]]
}

# The device of an interface, or nothing.
device_of() {
	local file
	for file in /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/0; do
		if [[ $(cat "$file" 2>/dev/null) == "$1" ]]; then
			cut -d/ -f5 <<<"$file"
			return
		fi
	done
}

ethernet_interfaces() {
	local path
	for path in /sys/class/net/*; do
		! is_ethernet "${path##*/}" || echo "${path##*/}"
	done
}

# The column RMTU needs ibv_devinfo.
status() {
	local name format='%-16s %-5s %-12s %-8s %-6s %-16s %-16s %s\n'
	[[ -n ${NO_HEADER-} ]] || printf "$format" Name Link Driver Speed NMTU IPv4_addr RDEV RMTU
	for name in $(ethernet_interfaces); do
		local net=/sys/class/net/$name link=no driver=virtual speed device mtu=''
		[[ $(cat "$net/carrier" 2>/dev/null) != 1 ]] || link=yes
		[[ ! -e $net/device/driver ]] || driver=$(basename "$(readlink -f "$net/device/driver")")
		speed=$(cat "$net/speed" 2>/dev/null)
		device=$(device_of "$name")
		[[ -z $device ]] || mtu=$(ibv_devinfo -d "$device" 2>/dev/null | sed -n 's/^[[:space:]]*active_mtu:[[:space:]]*//p')
		printf "$format" "$name" "$link" "$driver" "$speed" "$(cat "$net/mtu")" "$(address_of "$name")" "$device" "$mtu"
	done
}

address_of() {
	ip -o -4 addr show dev "$1" | sed -n '1s/.* inet \([0-9.]*\).*/\1/p'
}

# add and remove: the name is one of the listed names, or "all".
check_name() {
	local kind=$1 wanted=$2 name
	shift 2
	for name in all "$@"; do
		[[ $wanted != "$name" ]] || return 0
	done
	echo "$wanted: $kind does not exist"
	return 1
}

rxe_net() {
	local name
	for name in $(ethernet_interfaces); do
		[[ -z $(device_of "$name") ]] || echo "$name"
	done
}

devices() {
	local name
	for name in $(rxe_net); do
		device_of "$name"
	done
}

case ${1:-status} in
start)
	command -v usrdma >/dev/null || { echo "usrdma was not found" >&2; exit 1; }
	;;
stop) ;;
add) check_name interface "${2:-all}" $(ethernet_interfaces) ;;
remove) check_name device "${2:-all}" $(devices) ;;
status) status | grep -E -- "${2:-.}" ;;
rxe-net) rxe_net ;;
*)
	echo "invalid argument '$1' (start, stop, add, remove, status or rxe-net)" >&2
	exit 2
	;;
esac
