#!/bin/bash
# run.sh NAMESRV_ADDR [options of judge.Judge, see ../README.md]
# Compiles the cases with javac against published artifacts and runs them.
# JUDGE_WORK: where jars, classes and logs go. JUDGE_CLIENT, JUDGE_GRPC: versions of rocketmq-client and -tools, and of
# rocketmq-client-java, other than 5.4.0 and 5.2.0. The latter comes first: another jar has the same protocol classes.
# JUDGE_MAIN: judge.Files or judge.Provision instead of judge.Judge.
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
V=${JUDGE_CLIENT:-5.4.0}
G=${JUDGE_GRPC:-5.2.0}
W=${JUDGE_WORK:-/tmp/judge-work}/java-$V-$G
BIN=${JAVA_HOME:+$JAVA_HOME/bin/}
mkdir -p "$W/home"
exec 9> "$W/lock"; flock 9 # several may start at once
if [ ! -f "$W/lib/.done" ] || [ "$HERE/pom.xml" -nt "$W/lib/.done" ]; then
  rm -rf "$W/lib"
  mvn -q -B -f "$HERE/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$W/lib" -Dclient.version="$V" -Dgrpc.version="$G" >&2
  touch "$W/lib/.done"
fi
if [ ! -f "$W/classes/.done" ] || [ -n "$(find "$HERE/src" -newer "$W/classes/.done" \( -name '*.java' -o -type d \) | head -1)" ]; then
  rm -rf "$W/classes"; mkdir -p "$W/classes"
  "${BIN}javac" -nowarn -Xlint:none -encoding UTF-8 -d "$W/classes" -cp "$W/lib/*" $(find "$HERE/src" -name '*.java') 2> "$W/javac.log" || { cat "$W/javac.log" >&2; exit 3; }
  touch "$W/classes/.done"
fi
exec 9>&-
MAIN=${JUDGE_MAIN:-judge.Judge}
cd "$W" # some mqadmin commands leave files where they are run
exec "${BIN}java" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx768m -Duser.home="$W/home" -Drocketmq.client.logRoot="$W/logs" -Drocketmq.log.root="$W/logs" \
  -Drocketmq.client.logLevel=WARN -Drocketmq.client.localOffsetStoreDir="$W/offsets" -Djudge.noise="$W/noise.log" \
  -cp "$W/classes:$(ls "$W"/lib/rocketmq-client-java-*.jar):$W/lib/*" $JUDGE_OPTS $MAIN "$@"
