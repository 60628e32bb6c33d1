#!/bin/bash
# run.sh go4|go5 NAMESRV_ADDR [--proxy HOST:PORT] [--only A,B] [--skip A,B] [--jobs N] [--list] [--times]
# go4: rocketmq-client-go/v2 (remoting); go5: rocketmq-clients/golang/v5 (gRPC, needs --proxy). Modules from the Go proxy.
# JUDGE_WORK: where the program and its logs go.
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
K=$1; shift
W=${JUDGE_WORK:-/tmp/judge-work}/go
mkdir -p "$W/home/logs"
export GOFLAGS=-mod=readonly
# Without inlining and names for a debugger, all packages compile and link with a fifth less work.
(cd "$HERE" && go build -buildvcs=false -gcflags=all=-l -ldflags='-s -w' -o "$W/$K" "./$K") >&2
export JUDGE_HERE="$HERE" JUDGE_NOISE="$W/noise.log" HOME="$W/home" mq_consoleAppender_enabled=false
cd "$W" && exec "./$K" "$@"
