#!/bin/sh
# SPDX-License-Identifier: MIT
# remote_shell.sh HOST -- COMMAND…: stands for ssh. The hosts are this machine, by other names; of the caller's environment they see nothing.
# Some have a fault by which a test asks for them.
host=$1
shift 2
case $host in
  silent) exec sleep 60 ;;
  refusing) echo 'user@refusing: Permission denied (publickey,password).' >&2; exit 255 ;;
  old) echo 'qpmesh-run: --np is required' >&2; exit 2 ;;
  noisy) echo 'Welcome to noisy!'; echo 'It is Monday.' >&2 ;;
esac
exec env -i HOME="/home/$host" PATH=/usr/bin:/bin OF_THE_HOST="$host" "$@"
