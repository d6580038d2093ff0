#!/bin/sh
# image-digests.sh pins the images of compose.yaml and Dockerfile by the digests that their tags have now, such as
# postgres:17@sha256:…. It requires docker with buildx, and asks the registry. Run it before a deployment or a release,
# and again to update the digests. If a digest cannot be resolved, it changes no file.
set -eu
cd "$(dirname "$0")"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
cp compose.yaml Dockerfile "$new"

for image in $(sed -nE 's/^ *(image:|FROM) ([a-z]+:[^@ ]+)(@[^ ]+)?( .*)?$/\2/p' compose.yaml Dockerfile | sort -u); do
	digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
	if ! printf '%s\n' "$digest" | grep -qxE 'sha256:[0-9a-f]{64}'; then
		echo "image-digests.sh: $image: docker answered \"$digest\" instead of a digest; no file is changed" >&2
		exit 1
	fi
	for file in compose.yaml Dockerfile; do
		sed -E "s/^( *(image:|FROM) $image)(@[^ ]+)?( .*)?\$/\1@$digest\4/" "$new/$file" >"$new/next"
		mv "$new/next" "$new/$file"
	done
	echo "$image@$digest"
done
cat "$new/compose.yaml" >compose.yaml
cat "$new/Dockerfile" >Dockerfile
