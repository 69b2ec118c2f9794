# The classic steps with bookinfo, through the ingress gateway. Copy line by line, in the folder of the
# repository; what you will see is behind each line that asks.

# Ten requests for the reviews (as somebody, if you say so), and which version answered how many of them.
ask() { for i in $(seq 10); do curl -s "$@" $GATEWAY/api/v1/products/0/reviews | grep -o 'reviews-v[0-9]'; done | sort | uniq -c; }

# 1. Everything to version 1. In the browser: no stars, however often you load the page.
kubectl apply -f samples/bookinfo/networking/destination-rule-all.yaml
kubectl apply -f samples/bookinfo/networking/virtual-service-all-v1.yaml
ask
#=> 10 reviews-v1

# 2. The user jason to version 2. In the browser: sign in as jason, any password, and see black stars.
kubectl apply -f samples/bookinfo/networking/virtual-service-reviews-test-v2.yaml
ask -b user=jason
#=> 10 reviews-v2
ask
#=> 10 reviews-v1

# 3. A fault: ratings answer jason seven seconds late. The page waits three seconds for reviews, twice.
kubectl apply -f samples/bookinfo/networking/virtual-service-ratings-test-delay.yaml
curl -s -o /dev/null -b user=jason -w '%{http_code} after %{time_total} s\n' $GATEWAY/api/v1/products/0/reviews
#=> 504 after about 6 s

# 4. Another: ratings answer jason with an error. He sees the reviews, and a note in place of the stars.
kubectl apply -f samples/bookinfo/networking/virtual-service-ratings-test-abort.yaml
curl -s -b user=jason $GATEWAY/api/v1/products/0/reviews | grep -o 'Ratings service is currently unavailable' | uniq
#=> Ratings service is currently unavailable

# 5. Half of everybody to version 3. In the browser: every second time red stars.
kubectl apply -f samples/bookinfo/networking/virtual-service-all-v1.yaml
kubectl apply -f samples/bookinfo/networking/virtual-service-reviews-50-v3.yaml
ask
#=> about 5 reviews-v1
#=> about 5 reviews-v3

# 6. Version 1 answers, version 2 gets a copy of every request.
kubectl apply -f samples/bookinfo/networking/virtual-service-reviews-mirror-v2.yaml
copies() { kubectl exec deploy/reviews-v2 -c istio-proxy -- curl -s localhost:15020/stats/prometheus | awk '/^istio_requests_total.*reporter="destination"/ { n += $2 } END { print n + 0 }'; }
before=$(copies); ask; sleep 1; echo "$(($(copies) - before)) copies"
#=> 10 reviews-v1
#=> about 10 copies

# Back to where all versions answer by turns:
kubectl delete -f samples/bookinfo/networking/virtual-service-all-v1.yaml
